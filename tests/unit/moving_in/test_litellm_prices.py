"""What `gw models import --from` and `diff` make of a price list in LiteLLM's form"""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from channels.prices import PriceSpec, PriceStep, TierPrice
from gw.cli.main import main
from gw.config.faults import ConfigFaults
from gw.config.load import load_text
from gw.moving_in.litellm.prices import read_prices

SOL = {
    "litellm_provider": "openai",
    "mode": "responses",
    "max_input_tokens": 400000,
    "max_tokens": 128000,
    "max_output_tokens": 128000,
    "input_cost_per_token": 4e-06,
    "output_cost_per_token": 2e-05,
    "cache_read_input_token_cost": 4e-07,
    "input_cost_per_token_above_272k_tokens": 8e-06,
    "output_cost_per_token_above_272k_tokens": 3e-05,
    "input_cost_per_token_priority": 8e-06,
    "output_cost_per_token_priority": 4e-05,
    "input_cost_per_token_above_272k_tokens_priority": 1.6e-05,
    "input_cost_per_token_flex": 2e-06,
    "output_cost_per_token_batches": 1e-05,
    "search_context_cost_per_query": {
        "search_context_size_low": 0.01,
        "search_context_size_medium": 0.01,
        "search_context_size_high": 0.01,
    },
    "file_search_cost_per_1k_calls": 2.5,
    "code_interpreter_cost_per_session": 0.03,
    "computer_use_input_cost_per_1k_tokens": 1.0,
    "supports_reasoning": True,
}
OPUS = {
    "litellm_provider": "anthropic",
    "mode": "chat",
    "input_cost_per_token": 5e-06,
    "output_cost_per_token": 2.5e-05,
    "cache_creation_input_token_cost": 6.25e-06,
    "cache_creation_input_token_cost_above_1hr": 1e-05,
    "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 2e-05,
    "cache_read_input_token_cost": 5e-07,
    "provider_specific_entry": {"fast": 6.0, "us": 1.1},
    "search_context_cost_per_query": {
        "search_context_size_low": 0.01,
        "search_context_size_high": 0.02,
    },
}
FLASH = {
    "litellm_provider": "vertex_ai-language-models",
    "mode": "chat",
    "source": "https://vertex.example/prices",
    "input_cost_per_token": 3e-07,
    "input_cost_per_audio_token": 1e-06,
    "output_cost_per_token": 2.5e-06,
    "output_cost_per_reasoning_token": 2.5e-06,
    "output_cost_per_image_token": 3e-05,
}
LISTED = {
    "sample_spec": {
        "litellm_provider": "one of https://docs.litellm.ai",
        "input_cost_per_token": 0,
    },
    "gpt-5.6-sol": SOL,
    "openai/gpt-5.6-sol": SOL,
    "claude-opus-4-7": OPUS,
    "vertex_ai/gemini-flash": {**FLASH, "litellm_provider": "vertex_ai"},
    "gemini-flash": FLASH,
    "free": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 0},
    "wrong": {**OPUS, "input_cost_per_token": -1, "output_cost_per_token": "much"},
    "embed": {"litellm_provider": "openai", "mode": "embedding", "input_cost_per_token": 1e-08},
    "ai21.j2": {"litellm_provider": "ai21", "mode": "chat", "input_cost_per_token": 1e-06},
}


def usd(**members: str) -> dict[str, Decimal]:
    return {name: Decimal(value) for name, value in members.items()}


def steps(above: int, **members: str) -> tuple[PriceStep, ...]:
    return (PriceStep(above, usd(**members)),)


def written(folder: Path, value: Any) -> Path:
    path = folder / "prices.json"
    path.write_text(json.dumps(value))
    return path


def test_costs_of_every_dimension_are_read(tmp_path: Path) -> None:
    found = read_prices(written(tmp_path, LISTED))
    prices = {(row.provider, row.upstream): row.price for row in found.rows}
    each = usd(per_web_search="0.01", per_file_search="0.0025", per_code_session="0.03")
    assert prices == {
        ("openai", "gpt-5.6-sol"): PriceSpec(
            **usd(input="4", output="20", cached_input="0.4"),  # type: ignore[arg-type]
            **each,  # type: ignore[arg-type]
            above_tokens=steps(272_000, input="8", output="30"),
            service_tiers={
                "batch": TierPrice(prices=usd(output="10")),
                "flex": TierPrice(prices=usd(input="2")),
                "priority": TierPrice(
                    prices=usd(input="8", output="40"), above_tokens=steps(272_000, input="16")
                ),
            },
        ),
        ("anthropic", "claude-opus-4-7"): PriceSpec(
            **usd(  # type: ignore[arg-type]
                input="5", output="25", cached_input="0.5", cache_write="6.25", cache_write_1h="10"
            ),
            above_tokens=steps(200_000, cache_write_1h="20"),
            service_tiers={"fast": TierPrice(factor=Decimal(6))},
            regions=usd(us="1.1"),
            per_web_search=usd(low="0.01", high="0.02"),
        ),
        ("vertex", "gemini-flash"): PriceSpec(
            **usd(  # type: ignore[arg-type]
                input="0.3",
                output="2.5",
                audio_input="1",
                reasoning_output="2.5",
                image_output="30",
            )
        ),
    }
    sol = found.rows[0]
    assert (sol.context_size, sol.max_output_tokens) == (400_000, 128_000)
    assert found.unmapped == (
        "gpt-5.6-sol: computer_use_input_cost_per_1k_tokens",
        "openai/gpt-5.6-sol: listed twice for openai",
        "gemini-flash: listed twice for vertex",
        "free: no cost of input and output",
        "wrong: input_cost_per_token",
        "wrong: output_cost_per_token",
        "wrong: no cost of input and output",
        "1 rows of ai21: no kind of channel is for this provider",
        "1 rows of mode embedding: their prices are not read from this form",
    )


def test_other_forms_are_read_or_refused_as_before(tmp_path: Path) -> None:
    for text in ("{}", "{", '{"a": {"b": 1}}', "[]", "models: 1"):
        path = tmp_path / "list"
        path.write_text(text)
        with pytest.raises(ConfigFaults):
            read_prices(path)


def test_import_fills_the_dimensions_in_and_names_what_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "gw.yaml"
    config.write_text(
        "channels:\n  - {id: o, kind: openai, api_key: key-of-somebody}\n"
        "models:\n  - {id: gpt-5.6-sol, channels: [o]}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GW_CONFIG", raising=False)
    listed = written(tmp_path, LISTED)
    assert main(["models", "import", "--from", str(listed), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["priced"] == ["gpt-5.6-sol"]
    assert "gpt-5.6-sol: computer_use_input_cost_per_1k_tokens" in record["unmapped"]
    (model,) = load_text(config.read_text(), {}, source=config).registry.models.values()
    assert model.price == read_prices(listed).rows[0].price
    assert main(["models", "diff", "--from", str(listed), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []

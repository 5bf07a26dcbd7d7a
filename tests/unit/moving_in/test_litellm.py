"""What comes over from LiteLLM."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from channels.kinds import KINDS
from channels.prices import PriceSpec
from channels.registry import ChannelSpec, ModelSpec, Registry
from gw.cli.main import main
from gw.config.load import load_text
from gw.moving_in.writing import read_env_file

SECRET = "sk-of-litellm's-operator"


class Folder:
    """A folder that is moved into."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self.config = path / "gw.yaml"
        self._capsys = capsys

    def imported(self, text: str, *options: str, code: int = 0) -> dict[str, Any]:
        source = self.path / "litellm.yaml"
        source.write_text(text)
        assert main(["import", "litellm", str(source), *options, "--json"]) == code
        record: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return record

    def registry(self, **environ: str) -> Registry:
        """What the file says, with the variables beside it and these."""
        beside = self.path / "gw.env"
        known = read_env_file(beside.read_text()) if beside.exists() else {}
        text = self.config.read_text()
        return load_text(text, {**known, **environ}, source=self.config, is_priced=False).registry

    def of(self, text: str, **environ: str) -> tuple[ChannelSpec, ModelSpec]:
        """The only channel and the only model of a configuration."""
        self.imported(text)
        registry = self.registry(**environ)
        (channel,), (model,) = registry.channels.values(), registry.models.values()
        return channel, model


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Folder:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GW_CONFIG", raising=False)
    return Folder(tmp_path, capsys)


def one(params: str, info: str = "", name: str = "m") -> str:
    more = f"\n    model_info: {{{info}}}" if info else ""
    return f"model_list:\n  - model_name: {name}\n    litellm_params: {{{params}}}{more}\n"


KEY = "api_key: os.environ/THE_KEY"
AZURE, OLLAMA = "https://r.openai.azure.com", "http://10.0.0.9:11434"
# What LiteLLM says, the kind and the name there; last an address that is not the kind's own.
PROVIDERS = [
    (f"model: openai/gpt-4o, {KEY}", "openai", "gpt-4o", ""),
    (f"model: gpt-4o, {KEY}", "openai", "gpt-4o", ""),
    (f"model: claude-sonnet-5, {KEY}", "anthropic", "claude-sonnet-5", ""),
    (f"model: gemini/gemini-2.5-pro, {KEY}", "gemini", "gemini-2.5-pro", ""),
    (f"model: openrouter/openai/gpt-5, {KEY}", "openrouter", "openai/gpt-5", ""),
    (f"model: groq/openai/gpt-oss-120b, {KEY}", "groq", "openai/gpt-oss-120b", ""),
    (f"model: zai/glm-4.7, {KEY}", "zhipu", "glm-4.7", ""),
    (f"model: x/y, custom_llm_provider: groq, {KEY}", "groq", "x/y", ""),
    (f'model: openai/own, api_base: "https://own/v1/", {KEY}', "", "own", "https://own"),
    (
        f'model: azure/mine, api_base: "{AZURE}/", {KEY}, api_version: "2025-01-01"',
        *("azure-openai-deployments", "mine", AZURE),
    ),
    (f'model: ollama/llama3, api_base: "{OLLAMA}"', "ollama", "llama3", OLLAMA),
    (
        f'model: deepseek/flash, api_base: "https://api.deepseek.com/beta", {KEY}',
        *("deepseek", "flash", ""),
    ),
]


@pytest.mark.parametrize(("params", "kind", "upstream", "base_url"), PROVIDERS)
def test_deployment_becomes_a_channel_of_its_kind(
    params: str, kind: str, upstream: str, base_url: str, folder: Folder
) -> None:
    channel, model = folder.of(one(params), THE_KEY="key-of-tests")
    assert (channel.kind, channel.base_url) == (kind, base_url or KINDS[kind].base_url)
    assert channel.api_key == ("key-of-tests" if KEY in params else "")
    (binding,) = model.bindings
    assert (binding.upstream_model or model.id) == upstream
    if "api_version" in params:
        assert channel.query == (("api-version", "2025-01-01"),)
    assert not (folder.path / "gw.env").exists()


def test_bedrock_and_vertex_come_with_region_project_and_credentials(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    bedrock = (
        "model: bedrock/converse/us.anthropic.claude-sonnet-5, aws_region_name: us-west-2, "
        "aws_access_key_id: os.environ/AK, aws_secret_access_key: a-secret-of-aws"
    )
    vertex = "model: vertex_ai/gemini-2.5-pro, vertex_project: ours, vertex_credentials: key.json"
    text = one(bedrock) + one(vertex, name="g").removeprefix("model_list:\n")
    record = folder.imported(text)
    assert record["left"] == []
    content = folder.config.read_text()
    assert "a-secret-of-aws" not in content
    registry = folder.registry(AK="an-access-key", GOOGLE_CLOUD_LOCATION="europe-west1")
    first, second = registry.channels.values()
    assert first.base_url == "https://bedrock-runtime.us-west-2.amazonaws.com"
    assert second.base_url == "https://europe-west1-aiplatform.googleapis.com"
    assert registry.models["m"].bindings[0].upstream_model == "us.anthropic.claude-sonnet-5"
    monkeypatch.setenv("AK", "an-access-key")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west1")
    assert folder.imported(text)["written"] is False


def test_address_with_another_path_has_a_whole_path_of_chat(folder: Folder) -> None:
    params = f'model: openai/m, api_base: "https://own.example/api/paas/v4", {KEY}'
    channel, _ = folder.of(one(params), THE_KEY="key-of-tests")
    assert channel.base_url == "https://own.example"
    assert channel.paths == {"chat": "/api/paas/v4/chat/completions"}


def test_key_that_is_not_given_is_looked_for_where_the_provider_says(folder: Folder) -> None:
    channel, _ = folder.of(one("model: groq/x"), GROQ_API_KEY="key-of-groq")
    assert channel.api_key == "key-of-groq"


def test_key_in_clear_goes_into_a_file_for_its_owner_alone(folder: Folder) -> None:
    record = folder.imported(one(f'model: groq/x, api_key: "{SECRET}"'))
    beside = folder.path / "gw.env"
    assert record["secrets"] == str(beside)
    assert record["next"][0] == f"set -a; . {beside}; set +a"
    assert beside.stat().st_mode & 0o777 == 0o600
    assert SECRET not in folder.config.read_text()
    assert SECRET not in json.dumps(record)
    (channel,) = folder.registry().channels.values()
    assert channel.api_key == SECRET


COSTS = [
    ("input_cost_per_token: 1.5e-06, output_cost_per_token: 0.000006", "1.5", "6", None),
    (
        'input_cost_per_token: "3e-7", output_cost_per_token: 1E-6, '
        "cache_read_input_token_cost: 0.00000003",
        "0.3",
        "1",
        "0.03",
    ),
    ("input_cost_per_token: 0, output_cost_per_token: 0", "0", "0", None),
]


@pytest.mark.parametrize(("costs", "given", "output", "cached"), COSTS)
@pytest.mark.parametrize("is_info", [True, False])
def test_own_costs_are_exact_and_go_before_the_list(
    costs: str, given: str, output: str, cached: str | None, is_info: bool, folder: Folder
) -> None:
    base = f"model: openai/gpt-4o, {KEY}"
    text = one(base, costs) if is_info else one(f"{base}, {costs}")
    _, model = folder.of(text, THE_KEY="key-of-tests")
    assert model.price == PriceSpec(
        input=Decimal(given),
        output=Decimal(output),
        cached_input=Decimal(cached) if cached else None,
    )


def test_price_of_the_list_is_taken_with_its_source(folder: Folder) -> None:
    _, model = folder.of(one(f"model: openai/gpt-4o, {KEY}"), THE_KEY="key-of-tests")
    assert model.price.input == Decimal("2.5")
    assert "developers.openai.com" in folder.config.read_text()


def test_price_that_nobody_knows_is_a_fault_and_not_zero(folder: Folder) -> None:
    record = folder.imported(one(f"model: groq/nobody-knows, {KEY}"))
    assert record["unpriced"] == ["m"]
    (model,) = folder.registry(THE_KEY="key-of-tests").models.values()
    assert model.price == PriceSpec()
    assert main(["check-config"]) == 2


SEVERAL = """\
model_list:
  - model_name: gpt
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/A, order: 1}
  - model_name: gpt
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/B, order: 2}
  - model_name: gpt
    litellm_params: {model: openai/gpt-4o-mini, api_key: os.environ/A, order: 1}
  - model_name: other
    litellm_params: {model: openai/gpt-4o, api_key: os.environ/C}
  - model_name: claude
    litellm_params: {model: claude-sonnet-5, api_key: os.environ/A}
router_settings:
  fallbacks: [{gpt: [other, claude]}, {nobody: [gpt]}]
  model_group_alias: {gpt-latest: gpt, hidden: {model: claude, hidden: true}, lost: nobody}
"""


def test_deployments_of_one_name_stand_in_for_each_other(folder: Folder) -> None:
    record = folder.imported(SEVERAL)
    registry = folder.registry(A="key-of-a", B="key-of-b", C="key-of-c")
    model = registry.models["gpt"]
    serving = [
        (registry.channels[one.channel_id].api_key, one.upstream_model) for one in model.bindings
    ]
    # The second model of the first account is a channel of its own; the fallback to the same
    # model at another account is one more.
    assert serving == [
        ("key-of-a", "gpt-4o"),
        ("key-of-b", "gpt-4o"),
        ("key-of-a", "gpt-4o-mini"),
        ("key-of-c", "gpt-4o"),
    ]
    priorities = [registry.channels[one.channel_id].priority for one in model.bindings]
    assert priorities == [1, 2, 1, 1]
    assert model.aliases == ("gpt-latest",)
    assert registry.models["claude"].aliases == ("hidden",)
    # The dearest of them.
    assert model.price.input == Decimal("2.5")
    left = [one["what"] for one in record["left"]]
    assert left == [
        "the fallback of gpt to claude",
        "the fallback of nobody to gpt",
        "the alias lost",
    ]


LEFT = [
    (one(f"model: openai/x, rpm: 6, {KEY}"), "rpm of model m (openai/x)"),
    (one(f"model: openai/x, temperature: 0.2, {KEY}"), "temperature of model m (openai/x)"),
    (one(f"model: openai/x, {KEY}", "mode: embedding"), "model m (openai/x)"),
    (one(f"model: groq/x, {KEY}", "mode: image_generation"), "model m (groq/x)"),
    (one(f"model: sagemaker/x, {KEY}"), "model m (sagemaker/x)"),
    (one(f"model: openai/*, {KEY}", name='"openai/*"'), "model openai/* (openai/*)"),
    (one(f"model: openai_like/x, {KEY}"), "model m (openai_like/x)"),
    (one(f"model: nothing, {KEY}"), "model m (nothing)"),
    (one(f"model: gpt-x, {KEY}", name="two words"), "model two words (gpt-x)"),
    ("model_list: []\ngeneral_settings: {master_key: sk-1}\n", "general_settings.master_key"),
    ("model_list: []\nenvironment_variables: {A: b}\n", "environment_variables.A"),
    ("model_list: []\nlitellm_settings: {x: y}\n", "litellm_settings.x"),
    ("model_list: []\ninclude: [other.yaml]\n", "include"),
]


@pytest.mark.parametrize(("text", "what"), LEFT)
def test_what_has_no_counterpart_stays_and_says_why(text: str, what: str, folder: Folder) -> None:
    record = folder.imported(text, "--dry-run")
    assert record["written"] is False
    (found,) = [one for one in record["left"] if one["what"] == what]
    assert found["reason"]
    assert "sk-1" not in json.dumps(record)
    assert sorted(one.name for one in folder.path.iterdir()) == ["litellm.yaml"]


BAD = [
    ("", 1, ""),
    ("- 1", 1, ""),
    ("model_list: 3", 1, "model_list"),
    ("a: 1", None, "model_list"),
    ("model_list: [3]", 1, "model_list[0]"),
    ("model_list:\n  - {model_name: m}", 2, "model_list[0].litellm_params"),
    ("model_list:\n  - litellm_params: {model: a/b}", 2, "model_list[0].model_name"),
    (one(KEY), 3, "model_list[0].litellm_params.model"),
    (one("model: openai/m, api_base: nowhere"), 3, "model_list[0].litellm_params.api_base"),
    (
        one('model: openai/m, api_base: "https://stranger.example/$${GW_SECRET}/v1"'),
        *(3, "model_list[0].litellm_params.api_base"),
    ),
    (one('model: openai/m, api_key: "two words"'), 3, "model_list[0].litellm_params.api_key"),
    (one("model: openai/m, order: x"), 3, "model_list[0].litellm_params.order"),
    (
        one("model: openai/m, input_cost_per_token: cheap"),
        3,
        "model_list[0].litellm_params.input_cost_per_token",
    ),
    (
        one("model: openai/m, input_cost_per_token: .inf"),
        3,
        "model_list[0].litellm_params.input_cost_per_token",
    ),
    ("model_list: []\nrouter_settings: {fallbacks: 3}", 2, "router_settings.fallbacks"),
    ("model_list: [", 1, ""),
]


@pytest.mark.parametrize(("text", "line", "path"), BAD)
def test_bad_file_is_reported_by_line_and_changes_nothing(
    text: str, line: int | None, path: str, folder: Folder
) -> None:
    error = folder.imported(text, code=2)["error"]
    assert error["code"] == "invalid_configuration"
    faults = [(fault["line"], fault["path"]) for fault in error["faults"]]
    assert path in [found for _, found in faults]
    assert line is None or line in [found for found, _ in faults] or not path
    assert sorted(one.name for one in folder.path.iterdir()) == ["litellm.yaml"]


@pytest.mark.parametrize(
    "params",
    [
        "model: openai/m, api_key: k, api_base: os.environ/GW_SECRET",
        'model: openai/m, api_base: "https://stranger.example/v1", api_key: os.environ/GW_SECRET',
        "model: openai/m, api_key: k, extra_headers: {X-A: os.environ/gw_database_url}",
    ],
)
def test_variables_of_this_gateway_are_named_by_no_file(params: str, folder: Folder) -> None:
    record = folder.imported(one(params))
    assert record["channels"] == []
    assert any("a variable of this gateway" in one["reason"] for one in record["left"])
    assert "stranger" not in folder.config.read_text()


def test_text_of_a_stranger_is_no_variable(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GW_SECRET", "the-secret-of-this-gateway")
    version = '"2025-01-01$${GW_SECRET}"'
    azure = f'model: azure/m, api_base: "{AZURE}/", {KEY}, api_version: {version}'
    name = '"a$${GW_SECRET}"'
    bedrock = f"model: bedrock/x, aws_region_name: us-west-2, aws_profile_name: {name}"
    folder.imported(one(azure) + one(bedrock, name="b").removeprefix("model_list:\n"))
    registry = folder.registry(THE_KEY="key-of-tests", GW_SECRET="the-secret-of-this-gateway")
    first, _ = registry.channels.values()
    assert first.query == (("api-version", "2025-01-01${GW_SECRET}"),)
    assert "the-secret" not in repr(registry.channels)
    assert "$${GW_SECRET}" in folder.config.read_text()


def test_file_that_is_not_there_is_reported(folder: Folder) -> None:
    assert main(["import", "litellm", "nowhere.yaml"]) == 2


OWN = """\
# ours
channels:
  - {id: openai, kind: openai, api_key: "${MINE}"}  # another account
models:
  - id: gpt
    channels: [openai]
    price: {input: 1, output: 2}  # ours
"""


def test_moving_in_twice_is_moving_in_once_and_keeps_what_was_there(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "key-of-mine")
    folder.config.write_text(OWN)
    text = SEVERAL.replace("os.environ/A", f'"{SECRET}"')
    first = folder.imported(text)
    assert first["kept"] == ["gpt"]
    assert "openai" not in first["channels"]
    content, secrets = folder.config.read_text(), (folder.path / "gw.env").read_text()
    assert content.startswith(OWN.partition("models:")[0])
    assert "    price: {input: 1, output: 2}  # ours\n" in content
    again = folder.imported(text)
    assert (again["written"], again["channels"], again["models"]) == (False, [], [])
    assert folder.config.read_text() == content
    assert (folder.path / "gw.env").read_text() == secrets


def test_variables_that_are_there_already_stay(folder: Folder) -> None:
    beside = folder.path / "gw.env"
    beside.write_text("# by hand\nexport OWN='a b'\nGW_GROQ_KEY=another\n")
    folder.imported(one(f'model: groq/x, api_key: "{SECRET}"'))
    assert beside.read_text().startswith("# by hand\n")
    assert read_env_file(beside.read_text()) == {
        "OWN": "a b",
        "GW_GROQ_KEY": "another",
        "GW_GROQ_KEY_2": SECRET,
    }

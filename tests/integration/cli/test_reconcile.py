"""`gw reconcile` on a real PostgreSQL."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.transactions import transaction
from tests.integration.cli.command import Gw
from tests.unit.price_list.test_filling import CONSOLE, ROW, SKU, bucket, page

ROW_OF_CALL = """
    INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol,
        model, status, input_tokens, output_tokens, cached_tokens, cost_nano_usd, latency_ms,
        upstream_cost_nano_usd, channel_id, detail)
    VALUES (%s, now(), 'acct_a', 'k', gen_random_uuid(), 'chat', %s, 'success', %s, %s, %s, 1, 1,
        %s, %s, %s)
"""
CHANNELS = """\
channels:
  - {id: one, kind: openai, base_url: "https://one.example", api_key: k}
  - {id: two, kind: anthropic, api_key: k}
  - {id: three, kind: gemini, api_key: k}
models:
  - {id: gpt-large, channels: [{id: one, as: gpt-5.4-mini}], price: {input: 1, output: 2}}
  - {id: opus, channels: [{id: two, as: claude-opus-5}], price: {input: 1, output: 2}}
  - {id: flash, channels: [{id: three, as: gemini-2.5-flash}], price: {input: 1, output: 2}}
"""
RECEIPT = '{"tried": [["one", 1, 1, "ok"]]}'
ROWS: list[tuple[Any, ...]] = [
    ("2026-05-01T00:00:00Z", "gpt-large", 600, 300, 500, 4, "one", "{}"),
    ("2026-05-01T23:59:59Z", "gpt-large", 400, 200, 300, 6, "one", "{}"),
    ("2026-05-02T00:00:00Z", "gpt-large", 7, 1, 0, None, None, RECEIPT),
    ("2026-05-01T12:00:00Z", "opus", 3200, 50, 200, 9, "two", '{"cache_write": 1500}'),
    ("2026-05-01T12:00:00Z", "flash", 7, 9, 7, 5 * 10**8, "three", "{}"),
    ("2026-05-01T12:00:00Z", "flash", 0, 0, 0, 0, None, "{}"),
]
USED = {"input_tokens": 1000, "input_cached_tokens": 800, "output_tokens": 500}


@pytest.fixture
def rows(gw: Gw, database_url: str) -> None:
    text = gw.config.read_text()
    gw.config.write_text(text[: text.index("channels:")] + CHANNELS)
    gw.run_json("account", "list")  # makes the tables
    with transaction(database_url) as cursor:
        cursor.execute("INSERT INTO accounts (id, name) VALUES ('acct_a', 'n')")
        for row in ROWS:
            cursor.execute(ROW_OF_CALL, row)


def compared(gw: Gw, tmp_path: Path, text: str, *more: str, exit_code: int = 0) -> dict[str, Any]:
    file = tmp_path / "export"
    file.write_text(text, encoding="utf-8")
    output = gw.run("reconcile", str(file), *more, "--json")
    assert output.exit_code == exit_code, output
    record: dict[str, Any] = json.loads(output.out)
    return record


def test_what_agrees_is_no_difference(gw: Gw, rows: None, tmp_path: Path) -> None:
    used = {**USED, "model": "gpt-5.4-mini-2026-03-17"}
    record = compared(gw, tmp_path, page(bucket(used)))
    assert (record["agrees"], record["channels"], record["differences"]) == (True, ["one"], [])
    record = compared(gw, tmp_path, CONSOLE)
    assert (record["provider"], record["channels"], record["agrees"]) == (
        "anthropic",
        ["two"],
        True,
    )
    google = [ROW, {**ROW, "sku": {"description": SKU.format("output")}, "cost": 0}]
    google[1] = {**google[1], "usage": {"amount": 9}}
    record = compared(gw, tmp_path, "\n".join(map(json.dumps, google)))
    assert record["agrees"], record["differences"]
    costs = {"amount": {"value": "0.000000011", "currency": "usd"}, "line_item": "gpt-5.4-mini, x"}
    # Two calls, each rounded: as many billionths may be missing.
    assert compared(gw, tmp_path, page(bucket(costs)))["agrees"]
    output = gw.run("reconcile", str(tmp_path / "export"))
    assert "nothing differs" in output.out


NAMED = {
    "Claude Opus 4.5": "claude-opus-4-5-20251101",
    "Claude Opus 4.1 Usage - Input Tokens": "claude-opus-4-1",
    "Claude Opus 4 (batch)": "claude-opus-4-20250514",
    "Claude Sonnet 3.5": "claude-3-5-sonnet-20241022",
    "Claude Haiku 3": "claude-3-haiku",
    "Claude Opus 4.9": None,
    "Claude Opus": None,
}


def test_names_of_the_consoles_costs_are_those_of_the_models(gw: Gw, tmp_path: Path) -> None:
    text = gw.config.read_text()
    names = [name for name in NAMED.values() if name is not None]
    model = "  - {{id: m{}, channels: [{{id: two, as: {}}}], price: {{input: 1, output: 2}}}}\n"
    sold = "".join(model.format(number, name) for number, name in enumerate(names))
    channels = "channels:\n  - {id: two, kind: anthropic, api_key: k}\nmodels:\n"
    gw.config.write_text(text[: text.index("channels:")] + channels + sold)
    gw.run_json("account", "list")
    for theirs, name in NAMED.items():
        costs = f"usage_date_utc,model,cost_type,cost_usd\n2026-05-01,{theirs},tokens,0.25\n"
        record = compared(gw, tmp_path, costs, exit_code=1)
        assert record["unknown_models"] == ([] if name else [theirs]), theirs
        (line,) = record["differences"]
        assert (line["model"], line["theirs"]) == (name or theirs, "0.25")


def test_failed_attempts_and_what_nobody_received_are_counted_at_their_channels(
    gw: Gw, rows: None, database_url: str, tmp_path: Path
) -> None:
    tried = [["one", False, [50, 10, 0, 5], 3], ["one", False, None, None]]
    served = {"bought": [*tried, ["two", True, [3, 0, 0, 2], None]]}
    stated = {"upstream": {"usage": {"input": 4, "cached": 1, "output": 2}}}
    day = ("2026-05-01T12:00:00Z", "gpt-large")
    with transaction(database_url) as cursor:
        cursor.execute(ROW_OF_CALL, (*day, 3, 2, 0, None, "two", json.dumps(served)))
        cursor.execute(ROW_OF_CALL, (*day, 0, 0, 0, 5, "one", json.dumps(stated)))
    used = {"input_tokens": 1054, "input_cached_tokens": 811, "output_tokens": 507}
    record = compared(gw, tmp_path, page(bucket({**used, "model": "gpt-5.4-mini"})))
    assert record["agrees"], record["differences"]
    assert (record["unused_attempts"], record["unknown_attempts"]) == (1, 1)
    costs = {"amount": {"value": "0.000000018", "currency": "usd"}, "line_item": "gpt-5.4-mini, x"}
    record = compared(gw, tmp_path, page(bucket(costs)))
    assert (record["totals"][0]["ours"], record["unknown_cost_calls"]) == ("0.000000018", 0)
    assert "attempts: 1 counted, 1 that may" in gw.run("reconcile", str(tmp_path / "export")).out


def test_calls_of_a_chain_are_counted_as_the_models_that_were_tried(
    gw: Gw, rows: None, database_url: str, tmp_path: Path
) -> None:
    """One channel serves two models of the chain."""
    text = gw.config.read_text()
    small = (
        "  - {id: gpt-small, channels: [{id: one, as: gpt-5-nano}], price: {input: 1, output: 2}}\n"
    )
    gw.config.write_text(f"{text}{small}  - {{id: best, chain: [gpt-large, gpt-small]}}\n")
    failed = ["one", False, [30, 0, 0, 4], 3, "gpt-large"]
    served = {"served": "gpt-small", "chain": ["gpt-small"]}
    bought = {"bought": [failed, ["one", True, [6, 0, 0, 1], 2, "gpt-small"]]}
    cut = {"chain": ["gpt-large", "gpt-small"]}
    day = ("2026-05-03T12:00:00Z", "best")
    with transaction(database_url) as cursor:
        for more, tokens in ((served, (5, 2)), (served | bought, (6, 1)), (cut, (8, 1))):
            cursor.execute(ROW_OF_CALL, (*day, *tokens, 0, 2, "one", json.dumps(more)))
    large = {"input_tokens": 30, "output_tokens": 4, "model": "gpt-5.4-mini"}
    nano = {"input_tokens": 19, "output_tokens": 4, "model": "gpt-5-nano"}
    third = bucket(large, nano, start_time=1_777_593_600 + 2 * 86_400)
    record = compared(gw, tmp_path, page(third))
    assert record["agrees"], record["differences"]


def test_what_differs_is_listed_by_day_and_model(gw: Gw, rows: None, tmp_path: Path) -> None:
    later = bucket(start_time=1_777_593_600 + 86_400)
    less = {**USED, "input_tokens": 999, "model": "gpt-5.4-mini"}
    other = {**USED, "model": "gpt-unsold"}
    record = compared(gw, tmp_path, page(bucket(less, other), later), exit_code=1)

    def line(day: int, model: str, what: str, ours: int, theirs: int) -> dict[str, Any]:
        figures = {"ours": ours, "theirs": theirs, "difference": ours - theirs}
        return {"day": f"2026-05-0{day}", "model": model, "what": what, **figures}

    assert record["differences"] == [
        line(1, "gpt-5.4-mini", "input_tokens", 1000, 999),
        line(1, "gpt-unsold", "input_tokens", 0, 1000),
        line(1, "gpt-unsold", "cached_tokens", 0, 800),
        line(1, "gpt-unsold", "output_tokens", 0, 500),
        # The channel is in the receipt alone, of a row from before its column.
        line(2, "gpt-5.4-mini", "input_tokens", 7, 0),
        line(2, "gpt-5.4-mini", "output_tokens", 1, 0),
    ]
    assert record["unknown_models"] == ["gpt-unsold"]
    totals = {one["what"]: (one["ours"], one["theirs"]) for one in record["totals"]}
    assert totals["input_tokens"] == (1007, 1999)
    costs = {"amount": {"value": 1.5, "currency": "usd"}, "line_item": "gpt-5.4-mini, output"}
    record = compared(gw, tmp_path, page(bucket(costs)), exit_code=1)
    (found,) = record["differences"]
    assert (found["what"], found["theirs"], found["difference"]) == (
        "cost_usd",
        "1.5",
        "-1.49999999",
    )


def test_what_cannot_be_compared_is_refused(gw: Gw, rows: None, tmp_path: Path) -> None:
    record = compared(gw, tmp_path, "Dear customer", exit_code=2)
    assert "is no usage export: no known export has" in record["error"]["message"]
    _, message = gw.refuses("reconcile", str(tmp_path / "gone"), exit_code=2)
    assert "cannot be read" in message
    used = page(bucket({**USED, "model": "m"}))
    error = compared(gw, tmp_path, used, "--channel", "none", exit_code=2)["error"]
    assert error["message"] == "there is no channel none"
    (tmp_path / "export").write_bytes(b"\xff\xfe\x00")
    _, message = gw.refuses("reconcile", str(tmp_path / "export"), exit_code=2)
    assert "UTF-8" in message

"""`gw margin`, `gw reconcile`, `gw models diff`, `gw receipt` on a real PostgreSQL."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import Hold, Outcome
from actors.wallet.rows import encode_settlement
from tests.integration.cli.command import Gw
from tests.integration.money import PROCESS, open_account
from tests.support.aio import run
from tests.support.ledger_values import facts, hold, refused, settle
from tests.support.transactions import transaction
from tests.unit.price_list.test_filling import CONSOLE, ROW, SKU, bucket, page

MARGIN_ROW = """
    INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol,
        model, status, cost_nano_usd, latency_ms, upstream_cost_nano_usd, channel_id)
    VALUES (%s, now(), %s, 'k', gen_random_uuid(), 'chat', %s, 'success', %s, 1, %s, %s)
"""
MARGIN_ROWS = [
    ("2026-05-01T00:00:00Z", "acct_a", "m", 3_000_000_001, 1_000_000_000, "one"),
    ("2026-05-01T23:59:59Z", "acct_a", "m", 10**18, 10**18 - 1, "one"),
    ("2026-05-02T00:00:00Z", "acct_b", "n", 1, 3, "two"),
    ("2026-05-02T00:00:00Z", "acct_b", "n", 7_000_000_000, None, "two"),
    ("2026-05-02T00:00:00Z", "acct_b", "n", 0, 0, None),  # it was refused
    ("2026-05-03T00:00:00Z", "acct_b", "n", 9, 9, "two"),
]
DAYS = ("--from", "2026-05-01", "--to", "2026-05-02")
OLD = (
    "ALTER TABLE call_logs DISABLE TRIGGER call_logs_add_margins",
    "ALTER TABLE call_logs ENABLE TRIGGER call_logs_add_margins",
)


@pytest.fixture
def margin_rows(gw: Gw, database_url: str) -> None:
    gw.answers("account", "list")  # makes the tables
    with transaction(database_url) as cursor:
        for account in ("acct_a", "acct_b"):
            cursor.execute("INSERT INTO accounts (id, name) VALUES (%s, 'n')", (account,))
        for row in MARGIN_ROWS:
            cursor.execute(MARGIN_ROW, row)


def lines(gw: Gw, by: str, *more: str) -> dict[str | None, tuple[Any, ...]]:
    record = gw.answers("margin", "--by", by, *DAYS, *more)
    assert (record["by"], record["from"], record["to"]) == (by, "2026-05-01", "2026-05-02")
    return {line.pop(by): tuple(line.values()) for line in record["rows"]}


ONE = (2, "1000000003.000000001", "1000000000.999999999", "2.000000002", "0.00", 0, "0")
TWO = (2, "7.000000001", "0.000000003", "-0.000000002", "-200.00", 1, "7")
NONE = (1, "0", "0", "0", None, 0, "0")
BOTH = (3, *TWO[1:])


def test_sums_are_exact_and_unknown_costs_stand_apart(gw: Gw, margin_rows: None) -> None:
    assert lines(gw, "channel") == {"one": ONE, "two": TWO, None: NONE}
    assert lines(gw, "model") == {"m": ONE, "n": BOTH}
    assert lines(gw, "account") == {"acct_a": ONE, "acct_b": BOTH}
    assert lines(gw, "day") == {"2026-05-01": ONE, "2026-05-02": BOTH}
    total = gw.answers("margin", *DAYS)["total"]
    assert (total["calls"], total["margin_usd"], total["unknown_calls"]) == (5, "2", 1)
    said = gw.says("margin", *DAYS).out
    assert "1 calls, which brought 7 USD, are of unknown cost" in said


def test_calls_from_before_the_sums_are_of_unknown_cost(
    gw: Gw, database_url: str, margin_rows: None
) -> None:
    with transaction(database_url) as cursor:
        cursor.execute(OLD[0])
        cursor.execute(MARGIN_ROW, ("2026-05-01T12:00:00Z", "acct_a", "old", 5, None, None))
        cursor.execute(MARGIN_ROW, ("2026-05-01T12:00:00Z", "acct_a", "old", 6, None, None))
        cursor.execute(OLD[1])
    old = (2, "0.000000011", "0", "0", None, 2, "0.000000011")
    assert lines(gw, "model") == {"m": ONE, "n": BOTH, "old": old}
    with transaction(database_url) as cursor:  # `gw ledger repair` takes one of them out
        cursor.execute("DELETE FROM call_logs WHERE model = 'old' AND cost_nano_usd = 6")
    assert lines(gw, "model")["old"] == (1, "0.000000005", "0", "0", None, 1, "0.000000005")


def test_days_are_read_strictly(gw: Gw, margin_rows: None) -> None:
    assert gw.answers("margin")["rows"] == []
    assert gw.answers("margin", "--to", "0001-01-02")["from"] == "0001-01-01"
    for wrong in ("2026-5-1", "2026-02-30", "20260501", "today", "2026-05-01T00:00:00Z"):
        gw.refuses("margin", "--from", wrong, exit_code=2)
    code, message = gw.refuses("margin", "--from", "2026-05-02", "--to", "2026-05-01", exit_code=2)
    assert (code, message) == ("usage", "--from 2026-05-02 is after --to 2026-05-01")


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
    gw.answers("account", "list")  # makes the tables
    with transaction(database_url) as cursor:
        cursor.execute("INSERT INTO accounts (id, name) VALUES ('acct_a', 'n')")
        for row in ROWS:
            cursor.execute(ROW_OF_CALL, row)


def compared(gw: Gw, tmp_path: Path, text: str, *more: str, exit_code: int = 0) -> dict[str, Any]:
    file = tmp_path / "export"
    file.write_text(text, encoding="utf-8")
    said = gw.says("reconcile", str(file), *more, "--json")
    assert said.exit_code == exit_code, said
    record: dict[str, Any] = json.loads(said.out)
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
    said = gw.says("reconcile", str(tmp_path / "export"))
    assert "nothing differs" in said.out


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
    gw.answers("account", "list")
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
    assert "attempts: 1 counted, 1 that may" in gw.says("reconcile", str(tmp_path / "export")).out


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


# --- What `gw models diff` says of calls that were made, on a real PostgreSQL ---

CALL_ROW = """
    INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol,
        model, status, input_tokens, output_tokens, cached_tokens, cost_nano_usd, latency_ms,
        detail)
    VALUES (now() - %s * interval '1 day', now(), 'acct_a', 'key_a', gen_random_uuid(), 'chat', %s,
        'success', %s, %s, %s, %s, 1, '{"cache_write": 100000}')
"""
PRICES = """
dated: 2026-11-22
sources: {page: {url: "https://provider.example", dated: 2026-11-01}}
models:
  - provider: openai
    id: gpt-large
    source: page
    price: {input: 2, output: 4, cached_input: 1, cache_write: 3}
  - {provider: openai, id: gpt-small, source: page, price: {input: 1, output: 1}}
"""


def test_diff_tells_what_the_calls_of_the_last_days_would_have_cost_more(
    gw: Gw, database_url: str, tmp_path: Path
) -> None:
    text = gw.config.read_text().replace("https://a.example", "https://api.openai.com")
    gw.config.write_text(text)
    gw.answers("account", "list")  # makes the tables
    with transaction(database_url) as cursor:
        for row in [
            (1, "gpt-large", 1_000_000, 500_000, 300_000, 7),
            (2, "gpt-large", 1_000_000, 500_000, 300_000, 7),
            (40, "gpt-large", 9_000_000, 9_000_000, 0, 7),  # too long ago
            (1, "gpt-large", 9_000_000, 9_000_000, 0, 0),  # nobody paid for it
            (1, "gpt-small", 1_000_000, 1_000_000, 0, 7),
            (1, "gone", 1_000_000, 1_000_000, 0, 7),
        ]:
            cursor.execute(CALL_ROW, row)
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    record = gw.answers("models", "diff", str(prices))
    assert record["calls"] == [
        # Each: 600k fresh at 1 more, 300k cached as dear, 100k written and 500k out at 2 more.
        {"model": "gpt-large", "calls": 2, "more_usd": "3.6"},
        {"model": "gpt-small", "calls": 1, "more_usd": "-1"},
    ]
    assert (record["days"], record["more_usd"]) == (30, "2.6")
    assert gw.answers("models", "diff", str(prices), "--days", "2")["more_usd"] == "0.8"
    said = gw.says("models", "diff", str(prices))
    assert "3.6" in said.out


DIMENSIONS = """
dated: 2026-11-22
sources: {page: {url: "https://provider.example", dated: 2026-11-01}}
models:
  - provider: openai
    id: gpt-large
    source: page
    price:
      input: 1
      output: 2
      above_tokens: [{above: 200000, input: 2, output: 4}]
      service_tiers: {priority: {factor: 3}}
      per_web_search: "0.01"
"""


def test_each_call_is_priced_by_what_its_row_counts(
    gw: Gw, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gw.price_list.repricing.ROWS_MAX", 2)
    text = gw.config.read_text().replace("https://a.example", "https://api.openai.com")
    gw.config.write_text(text)
    gw.answers("account", "list")  # makes the tables
    calls = [
        (200_000, 0, "{}", 0),  # a short prompt, and the like
        (200_001, 1000, "{}", 200_001 + 2000),  # a long one: twice as much
        (1000, 0, '{"reported": {"service_tier": "priority"}}', 2000),
        (0, 0, '{"reported": {"web_searches": 2}}', 20_000),
        (0, 0, '{"reported": {"web_searches": 1}, "reasoning": 5}', 10_000),
    ]
    with transaction(database_url) as cursor:
        for given, output, detail, _ in calls:
            row = CALL_ROW.replace("""'{"cache_write": 100000}'""", "%s")
            cursor.execute(row, (1, "gpt-large", given, output, 0, 7, detail))
    prices = tmp_path / "prices.yaml"
    prices.write_text(DIMENSIONS)
    record = gw.answers("models", "diff", str(prices))
    micro_usd = sum(more for *_, more in calls)
    assert record["calls"][0]["calls"] == len(calls)
    assert record["more_usd"] == f"{micro_usd / 10**6:.6f}".rstrip("0")


PRICE = {"input": "1", "output": "10", "cached_input": "0.1", "multiplier": "0.5"}
DETAIL: dict[str, Any] = {
    "request": {"model": "m", "max_tokens": "9"},
    "price": PRICE,
    "hold": 100_000,
    "estimate": [10, 9],
    "order": [["one", "chat"], ["two", "messages"], ["three", "messages"]],
    "passed_over": {"one": "full"},
    "tried": [["two", 1_790_000_000.5, 250, "ok"]],
    "upstream": {"status": 200, "id": "r1", "finish": "stop"},
}
# (600 x 1 + 400 x 0.1 + 100 x 10) x 0.5 USD per million
COST = 820_000


@pytest.fixture
def settled(database_url: str) -> str:
    """The trace of a settled call; the one after it was refused."""

    tokens = {"input_tokens": 1000, "output_tokens": 100, "cached_tokens": 400}

    async def main() -> None:
        async with Database(database_url) as database:
            await open_account(database, 10**9)
            await apply(database, PROCESS, Batch(holds=[hold(1, 100_000)]))
            batch = Batch(
                settlements=[settle(1, COST, detail=DETAIL, **tokens)],
                records=[refused(2, seconds=2.0, error_code="model_not_found")],
            )
            await apply(database, PROCESS, batch)

    run(main())
    return UUID(int=1).hex


def tamper(database_url: str, assignment: str) -> None:
    with transaction(database_url) as cursor:
        cursor.execute(f"UPDATE call_logs SET {assignment} WHERE cost_nano_usd > 0")
        assert cursor.rowcount == 1


def test_receipt_names_channels_and_agrees(gw: Gw, settled: str) -> None:
    found = gw.answers("receipt", settled)
    assert found["agrees"] is True
    assert found["cost_usd"] == found["computed_usd"] == "0.00082"
    assert found["computation"] == (
        "(600 x 1 + 400 x 0.1 + 100 x 10) x 0.5 / 1000000 = 0.00082 USD"
    )
    assert found["channels"] == [
        {"channel": "one", "protocol": "chat", "outcome": "full", "ms": None},
        {"channel": "two", "protocol": "messages", "outcome": "ok", "ms": 250},
        {"channel": "three", "protocol": "messages", "outcome": None, "ms": None},
    ]
    assert gw.answers("receipt", str(found["id"])) == found
    assert gw.answers("receipt", str(UUID(settled))) == found
    text = gw.says("receipt", settled).out
    assert "two" in text
    assert "which is what was charged: 0.00082 USD" in text


def test_corrected_call_says_what_it_was_and_agrees_with_what_it_is(
    gw: Gw, database_url: str, settled: str
) -> None:
    async def main() -> None:
        async with Database(database_url) as database:
            who = facts(3)
            recovered = Outcome(
                status="interrupted",
                cost_nano_usd=5000,
                created_at=1_790_000_020.0,
                latency_ms=20_000,
                error_code="gateway_restarted",
                output_tokens=1000,
                detail={"price": PRICE},
            )
            true = Outcome(
                status="success",
                cost_nano_usd=COST,
                created_at=1_790_000_040.0,
                latency_ms=40_000,
                input_tokens=1000,
                output_tokens=100,
                cached_tokens=400,
                detail=DETAIL,
            )
            hold = Hold(facts=who, amount_nano_usd=100_000)
            await apply(database, PROCESS, Batch(holds=[hold]))
            for settle in (
                encode_settlement(who, recovered, is_recovery=True),
                encode_settlement(who, true),
            ):
                await apply(database, PROCESS, Batch(settlements=[settle]))

    run(main())
    found = gw.answers("receipt", UUID(int=3).hex)
    assert (found["agrees"], found["cost_usd"]) == (True, "0.00082")
    told = found["gateway"]
    assert (told["status"], told["latency_ms"]) == ("success", "40000")
    assert (told["status_before"], told["cost_before_usd"]) == ("interrupted", "0.000005")
    assert told["ended_at"] == "2026-09-21T14:13:40.000Z"  # its place in the log is recovery's
    assert "error_code" not in told
    assert gw.answers("ledger", "verify", "--costs")["ok"]


def test_refused_call_comes_to_nothing(gw: Gw, settled: str) -> None:
    found = gw.answers("receipt", UUID(int=2).hex)
    assert (found["agrees"], found["cost_usd"]) == (True, "0")


OFF = {
    "cost": "cost_nano_usd = cost_nano_usd + 1",
    "tokens": "output_tokens = output_tokens - 1",
    "price": "detail = jsonb_set(detail::jsonb, '{price,output}', '\"11\"')::json",
    "no price": "detail = NULL",
    "more cached than there was": "cached_tokens = 1001",
}


@pytest.mark.parametrize("assignment", OFF.values(), ids=OFF)
def test_cost_that_is_off_is_said_so(
    gw: Gw, database_url: str, settled: str, assignment: str
) -> None:
    tamper(database_url, assignment)
    said = gw.says("receipt", settled)
    assert said.exit_code == 1
    assert "which is NOT what was charged" in said.out


@pytest.mark.parametrize("ref", ["4711", UUID(int=9).hex])
def test_unknown_call_is_refused(gw: Gw, settled: str, ref: str) -> None:
    assert gw.refuses("receipt", ref)[0] == "call_not_found"


@pytest.mark.parametrize("ref", ["", "x", "-1", "9" * 19, "9" * 25, "a" * 31])
def test_what_is_no_id_is_a_usage_fault(gw: Gw, ref: str) -> None:
    assert gw.says("receipt", ref).exit_code == 2

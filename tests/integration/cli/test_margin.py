"""`gw margin` on a real PostgreSQL."""

from typing import Any

import pytest

from loadtests.rig.transactions import transaction
from tests.integration.cli.command import Gw

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


@pytest.fixture
def margin_rows(gw: Gw, database_url: str) -> None:
    gw.run_json("account", "list")  # makes the tables
    with transaction(database_url) as cursor:
        for account in ("acct_a", "acct_b"):
            cursor.execute("INSERT INTO accounts (id, name) VALUES (%s, 'n')", (account,))
        for row in MARGIN_ROWS:
            cursor.execute(MARGIN_ROW, row)


def lines(gw: Gw, by: str, *more: str) -> dict[str | None, tuple[Any, ...]]:
    record = gw.run_json("margin", "--by", by, *DAYS, *more)
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
    total = gw.run_json("margin", *DAYS)["total"]
    assert (total["calls"], total["margin_usd"], total["unknown_calls"]) == (5, "2", 1)
    stated = gw.run("margin", *DAYS).out
    assert "1 calls, which brought 7 USD, are of unknown cost" in stated


def test_calls_from_before_the_sums_are_of_unknown_cost(
    gw: Gw, database_url: str, margin_rows: None
) -> None:
    with transaction(database_url) as cursor:
        cursor.execute(MARGIN_ROW, ("2026-05-01T12:00:00Z", "acct_a", "old", 5, None, None))
        cursor.execute(MARGIN_ROW, ("2026-05-01T12:00:00Z", "acct_a", "old", 6, None, None))
        cursor.execute("DELETE FROM call_log_margins WHERE model = 'old'")
    old = (2, "0.000000011", "0", "0", None, 2, "0.000000011")
    assert lines(gw, "model") == {"m": ONE, "n": BOTH, "old": old}
    with transaction(database_url) as cursor:  # `gw ledger repair` takes one of them out
        cursor.execute("DELETE FROM call_logs WHERE model = 'old' AND cost_nano_usd = 6")
    assert lines(gw, "model")["old"] == (1, "0.000000005", "0", "0", None, 1, "0.000000005")


def test_days_are_read_strictly(gw: Gw, margin_rows: None) -> None:
    assert gw.run_json("margin")["rows"] == []
    assert gw.run_json("margin", "--to", "0001-01-02")["from"] == "0001-01-01"
    for wrong in ("2026-5-1", "2026-02-30", "20260501", "today", "2026-05-01T00:00:00Z"):
        gw.refuses("margin", "--from", wrong, exit_code=2)
    code, message = gw.refuses("margin", "--from", "2026-05-02", "--to", "2026-05-01", exit_code=2)
    assert (code, message) == ("usage", "--from 2026-05-02 is after --to 2026-05-01")

"""What `gw ledger verify` makes of a report."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from actors.wallet.verify import VerifyReport
from gw.cli.arguments import to_json
from gw.cli.ledger import verify_result


def test_clean_ledger_is_counted() -> None:
    answer = verify_result(VerifyReport(counts={"accounts": 2, "entries": 30}, faults=[]))
    assert answer.exit_code == 0
    counts = {"accounts": 2, "entries": 30}
    rest: dict[str, Any] = {"ok": True, "since": None, "sealed": [], "faults": []}
    assert answer.record == {**rest, "counts": counts}
    assert answer.text == "accounts  2\nentries   30\n\nthe ledger adds up"


def test_checkpoint_a_proof_stands_on_and_those_it_writes_are_shown() -> None:
    report = VerifyReport(
        counts={"entries": 3}, faults=[], since="2026-10-01", sealed=["2026-11-01"]
    )
    answer = verify_result(report)
    assert answer.text == (
        "entries  3\nsince    2026-10-01\n\nthe ledger adds up\nsealed until 2026-11-01"
    )


def test_rows_that_break_an_invariant_are_shown_and_fail() -> None:
    faults: list[dict[str, Any]] = [
        {"invariant": "balance", "account": "a", "sum": Decimal(5)},
        {"invariant": "once", "call": "c", "settlements": 2},
        {"invariant": "balance", "account": "b", "sum": None},
    ]
    answer = verify_result(VerifyReport(counts={"accounts": 2}, faults=faults))
    assert answer.exit_code == 1
    assert answer.record["ok"] is False
    assert '"sum": 5' in to_json(answer.record)
    assert answer.text == (
        "accounts  2\n"
        "\n"
        "balance does not hold\n"
        "account  sum\n"
        "a        5\n"
        "b        -\n"
        "\n"
        "once does not hold\n"
        "call  settlements\n"
        "c     2"
    )

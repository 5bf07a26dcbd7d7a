"""What `gw ledger verify` makes of a report"""

from decimal import Decimal
from typing import Any

from actors.wallet.verify import VerifyReport
from gw.cli.ledger import verify_result
from gw.cli.output import to_json


def test_checkpoint_a_proof_stands_on_and_those_it_writes_are_shown() -> None:
    report = VerifyReport(
        counts={"entries": 3}, faults=[], since="2026-10-01", sealed=["2026-11-01"]
    )
    response = verify_result(report)
    assert response.text == (
        "entries  3\nsince    2026-10-01\n\nthe ledger adds up\nsealed until 2026-11-01"
    )


def test_rows_that_break_an_invariant_are_shown_and_fail() -> None:
    faults: list[dict[str, Any]] = [
        {"invariant": "balance", "account": "a", "sum": Decimal(5)},
        {"invariant": "once", "call": "c", "settlements": 2},
        {"invariant": "balance", "account": "b", "sum": None},
    ]
    response = verify_result(VerifyReport(counts={"accounts": 2}, faults=faults))
    assert response.exit_code == 1
    assert response.record["ok"] is False
    assert '"sum": 5' in to_json(response.record)
    assert response.text == (
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

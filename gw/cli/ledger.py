"""`gw ledger`: prove from the database that the money adds up (contract §1, §3).

The invariants are `actors/wallet/verify.py`; this only prints what they say.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actors.wallet.verify import VerifyReport
from actors.wallet.verify import verify as verify_ledger
from gw.cli.arguments import add_command, add_noun
from gw.cli.context import Context, with_database
from gw.cli.failures import EXIT_REFUSED
from gw.cli.output import Answer, sheet, table

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "ledger", "prove the ledger")
    text = "prove that every balance is the sum of its entries; exit 1 and the rows where not"
    parser = add_command(verbs, "verify", text, with_database(verify))
    parser.add_argument(
        "--costs",
        action="store_true",
        help="work out each call's cost again from its row too; reads the whole call log",
    )


async def verify(context: Context, options: Namespace) -> Answer:
    return verify_answer(await verify_ledger(context.database, with_costs=options.costs))


def verify_answer(report: VerifyReport) -> Answer:
    """The counts, and every row that breaks an invariant."""
    faults = [dict(fault) for fault in report.faults]
    record = {"ok": report.ok, "counts": dict(report.counts), "faults": faults}
    if report.ok:
        return Answer(record, f"{sheet(report.counts)}\n\nthe ledger adds up")
    text = "\n\n".join([sheet(report.counts), *_tables(faults)])
    return Answer(record, text, EXIT_REFUSED)


def _tables(faults: Sequence[Mapping[str, Any]]) -> list[str]:
    """One table for each invariant that does not hold."""
    by_invariant: dict[str, list[Mapping[str, Any]]] = {}
    for fault in faults:
        by_invariant.setdefault(fault["invariant"], []).append(fault)
    tables = []
    for invariant, rows in by_invariant.items():
        columns = [column for column in rows[0] if column != "invariant"]
        tables.append(f"{invariant} does not hold\n{table(rows, columns)}")
    return tables

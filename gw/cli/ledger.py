"""`gw ledger`: verify the ledger, and repair duplicate rows (running.md: Proving the ledger).

Invariants and repairs are in `actors/wallet/verify.py`; this only prints their results.
"""

from __future__ import annotations

import getpass
import os
import socket
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from actors.store.session import Session
from actors.wallet.money import format_usd
from actors.wallet.quarantine import UnknownQuarantined, adopt, book, waiting
from actors.wallet.repair import CallRow, Repair
from actors.wallet.repair import repair as repair_ledger
from actors.wallet.verify import VerifyReport
from gw.admin import audit
from gw.admin.audit import Actor
from gw.admin.ledger import prove
from gw.cli.arguments import add_command, add_noun, label
from gw.cli.context import Context, with_database
from gw.cli.failures import EXIT_REFUSED, CommandRefused
from gw.cli.output import Result, sheet, table

BOOKED_AS = {
    "whole": "booked as it is",
    "shortened": "booked without its texts",
    "settled_before": "settled otherwise before; nothing was booked",
}

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "ledger", "prove and repair the ledger")
    text = "prove that every balance is the sum of its entries; exit 1 and the rows where not"
    parser = add_command(verbs, "verify", text, with_database(verify))
    parser.add_argument(
        "--costs",
        action="store_true",
        help="work out each call's cost again from its row too; with --all, from every row",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        dest="is_everything",
        help="from the first entry that is kept, each checkpoint too, and not from the last one",
    )
    text = "list settlements that the ledger refused for what they say; with --book, charge one"
    parser = add_command(verbs, "quarantine", text, with_database(quarantine))
    parser.add_argument(
        "--book",
        metavar="CALL",
        type=call_id,
        default=None,
        help="book it as it is, or, if the ledger refuses it again, without its texts",
    )
    text = "show what it takes to give each call of the log its one row; with --apply, do it"
    parser = add_command(verbs, "repair", text, with_database(repair))
    parser.add_argument(
        "--apply",
        action="store_true",
        help="take the other rows out, book differences, keep a record of both; one transaction",
    )
    parser.add_argument(
        "--by",
        metavar="NAME",
        type=label,
        default=None,
        help="who does it, for the record (default: the user of the system)",
    )


async def verify(context: Context, options: Namespace) -> Result:
    report = await prove(
        context.database,
        Actor.of_this_process(),
        with_costs=options.costs,
        is_everything=options.is_everything,
    )
    return verify_result(report)


def call_id(text: str) -> UUID:
    """Read the id of a call. Raises ArgumentTypeError."""
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no id of a call") from None


async def quarantine(context: Context, options: Namespace) -> Result:
    actor = Actor.of_this_process()
    await adopt(context.database, context.config.data_dir)
    if options.book is None:
        calls = [
            {
                "call": one.call_id,
                "account": one.account_id,
                "key": one.key_id,
                "cost_usd": format_usd(one.cost_nano_usd),
                "quarantined_at": one.quarantined_at.isoformat(),
                "error": one.error,
            }
            for one in await waiting(context.database)
        ]
        text = table(calls, list(calls[0])) if calls else "nothing is in the quarantine"
        return Result({"calls": calls}, text)

    async def noted(session: Session, how: str) -> None:
        details = {"call": str(options.book), "how": how}
        await audit.note(session, actor, "ledger.book", "ledger", details=details)

    try:
        how = await book(context.database, options.book, by=actor.name, also=noted)
    except UnknownQuarantined:
        raise CommandRefused(
            f"no message of the call {options.book} is in the quarantine", "not_quarantined"
        ) from None
    record = {"call": str(options.book), "booked_as": how}
    return Result(record, f"{options.book}: {BOOKED_AS[how]}")


async def repair(context: Context, options: Namespace) -> Result:
    by = options.by or f"{_user()}@{socket.gethostname()}"
    actor = Actor.of_this_process()

    async def noted(session: Session, done: Sequence[Repair]) -> None:
        details = {"by": by, "calls": len(done)}
        await audit.note(session, actor, "ledger.repair", "ledger", details=details)

    found = await repair_ledger(context.database, by=by, is_applied=options.apply, also=noted)
    return repair_result(found, by=by, is_applied=options.apply)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        return f"uid {os.getuid()}"


def repair_result(found: Sequence[Repair], *, by: str, is_applied: bool) -> Result:
    """Return each call with several rows: those that stay, are removed and are posted."""
    calls = [_repaired(one) for one in found]
    record = {"applied": is_applied, "by": by, "calls": calls}
    if not calls:
        return Result(record, "every call has one row; there is nothing to repair")
    lines = [
        {**one, "stays": _row_text(one["stays"]), "goes": _rows_text(one["goes"])} for one in calls
    ]
    text = table(lines, ("call", "account", "stays", "goes", "booked_usd"))
    verdict = "repaired" if is_applied else "nothing was changed; --apply does it"
    return Result(record, f"{text}\n\n{len(calls)} calls: {verdict}")


def _repaired(one: Repair) -> dict[str, Any]:
    return {
        "call": one.call_id,
        "account": one.account_id,
        "paid_usd": format_usd(one.paid_nano_usd),
        "booked_usd": format_usd(one.booked_nano_usd),
        "stays": _row(one.stays),
        "goes": [_row(row) for row in one.goes],
    }


def _row(row: CallRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "status": row.status,
        "error_code": row.error_code,
        "cost_usd": format_usd(row.cost_nano_usd),
    }


def _row_text(row: Mapping[str, Any]) -> str:
    return f"{row['id']} {row['status']} {row['cost_usd']}"


def _rows_text(rows: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(map(_row_text, rows))


def verify_result(report: VerifyReport) -> Result:
    """Return the counts, and every row that breaks an invariant."""
    faults = [dict(fault) for fault in report.faults]
    record = {
        "ok": report.ok,
        "since": report.since,
        "sealed": list(report.sealed),
        "counts": dict(report.counts),
        "faults": faults,
    }
    seen = sheet({**report.counts, **({"since": report.since} if report.since else {})})
    if report.ok:
        sealed = "".join(f"\nsealed until {ends}" for ends in report.sealed)
        return Result(record, f"{seen}\n\nthe ledger adds up{sealed}")
    text = "\n\n".join([seen, *_tables(faults)])
    return Result(record, text, EXIT_REFUSED)


def _tables(faults: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one table for each broken invariant."""
    by_invariant: dict[str, list[Mapping[str, Any]]] = {}
    for fault in faults:
        by_invariant.setdefault(fault["invariant"], []).append(fault)
    tables = []
    for invariant, rows in by_invariant.items():
        columns = [column for column in rows[0] if column != "invariant"]
        tables.append(f"{invariant} does not hold\n{table(rows, columns)}")
    return tables

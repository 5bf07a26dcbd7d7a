"""`gw receipt`: one call's receipt for operators, with its cost computed again.

Clients see the same row as in `gw/api/logs/record.py`; here channels have their names.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from actors.wallet.money import format_usd
from actors.wallet.receipt import NoPrice, formula, multiplier_of, total_nano_usd
from gw.api.logs.detail import gateway_pairs, request_pairs, upstream_pairs
from gw.api.logs.record import CallRecord, find_ref, read_ref
from gw.cli import output
from gw.cli.arguments import add_command
from gw.cli.context import Context, with_database
from gw.cli.failures import EXIT_REFUSED, CommandRefused

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    text = "print the receipt of a call and work its cost out again; exit 1 if it does not agree"
    parser = add_command(nouns, "receipt", text, with_database(receipt))
    parser.add_argument("ref", metavar="ID", type=_ref, help="of its log row, or its trace id")


async def receipt(context: Context, options: Namespace) -> output.Result:
    record = await find_ref(context.database, options.ref)
    if record is None:
        raise CommandRefused(f"the call log has no row {options.ref}", "call_not_found")
    computed, how = recomputed(record)
    agrees = computed == record.cost_nano_usd
    whole = {
        "id": record.id,
        "agrees": agrees,
        "cost_usd": format_usd(record.cost_nano_usd),
        "computed_usd": None if computed is None else format_usd(computed),
        "computation": how,
        "account": record.account_id,
        "key": record.key_id,
        "key_name": record.key_name,
        "channels": _channels(record),
        "request": _facts(request_pairs(record)[0]),
        "upstream": _facts(upstream_pairs(record, str)),
        "gateway": _facts(gateway_pairs(record, str, context.config.credits_per_usd)),
    }
    return output.Result(whole, _text(record, whole), 0 if agrees else EXIT_REFUSED)


def recomputed(record: CallRecord) -> tuple[int | None, str]:
    """Return the cost by the row's price and counts in nano-USD, and its formula; None: no price.

    A call without a price and without a cost was refused, and costs nothing.
    """
    try:
        lines = record.lines
    except NoPrice:
        return (None, "no price is kept") if record.cost_nano_usd else (0, "nothing was charged")
    if any(line.count < 0 for line in lines):
        return None, "the parts of the input are more than the input"
    multiplier = multiplier_of(record.detail)
    return total_nano_usd(lines, multiplier), formula(lines, multiplier)


def _channels(record: CallRecord) -> list[dict[str, Any]]:
    """Return the channels considered by name, in their order, with their results."""
    detail = record.detail
    tried = {channel: (ms, outcome) for channel, _, ms, outcome in detail.get("tried", ())}
    passed_over = detail.get("passed_over", {})
    return [
        {
            "channel": channel,
            "protocol": protocol,
            "outcome": tried.get(channel, (None, passed_over.get(channel)))[1],
            "ms": tried.get(channel, (None, None))[0],
        }
        for channel, protocol in detail.get("order", ())
    ]


def _text(record: CallRecord, whole: dict[str, Any]) -> str:
    head = {
        "id": record.id,
        "account": record.account_id,
        "key": f"{record.key_id} {record.key_name or ''}".strip(),
        "submitted_at": output.rfc3339(record.submitted_at),
    }
    parts = [output.sheet(head)]
    if whole["channels"]:
        parts.append(output.table(whole["channels"], ("channel", "protocol", "outcome", "ms")))
    for name in ("request", "upstream", "gateway"):
        if whole[name]:
            parts.append(f"{name}\n{output.sheet(whole[name])}")
    verdict = "which is what was charged" if whole["agrees"] else "which is NOT what was charged"
    parts.append(f"{whole['computation']}, {verdict}: {whole['cost_usd']} USD")
    return "\n\n".join(parts)


def _facts(pairs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {pair["k"]: pair["v"] for pair in pairs}


def _ref(text: str) -> int | UUID:
    ref = read_ref(text)
    if ref is None:
        raise argparse.ArgumentTypeError(f"{text!a} is neither the id of a row nor a trace id")
    return ref

"""`gw margin`: revenue and upstream cost of calls by channel, model, account or day.

Amounts are exact. Only calls with a known cost are in the margin; the others are counted beside it
with their revenue, and never as free of cost.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from actors.store.queries import load
from actors.wallet.money import format_usd
from gw.cli.arguments import add_command
from gw.cli.context import Context, with_database
from gw.cli.failures import UsageFault
from gw.cli.output import Result, table

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers

SQL = load("gw.cli", "margin.sql")
# The column of each grouping.
COLUMNS: Mapping[str, str] = {
    "channel": "channel",
    "model": "model",
    "account": "account_id",
    "day": "day",
}
# The default of --from: the period's days, the last one included.
DAYS = 30
FIGURES = ("calls", "revenue_usd", "cost_usd", "margin_usd", "margin_percent", "unknown_calls")


@dataclass(frozen=True, slots=True)
class MarginSums:
    """Sums over calls; `revenue` is of all of them, `known_revenue` and `cost` of those with a
    known cost."""

    calls: int = 0
    unknown_calls: int = 0
    revenue_nano_usd: int = 0
    known_revenue_nano_usd: int = 0
    cost_nano_usd: int = 0

    def __add__(self, other: MarginSums) -> MarginSums:
        return MarginSums(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def record(self) -> dict[str, Any]:
        """The figures of a row. Without revenue there is no percentage."""
        margin = self.known_revenue_nano_usd - self.cost_nano_usd
        percent = None
        if self.known_revenue_nano_usd:
            share = Decimal(100 * margin) / self.known_revenue_nano_usd
            percent = f"{share.quantize(Decimal('0.01')):f}"
        unknown = self.revenue_nano_usd - self.known_revenue_nano_usd
        return {
            "calls": self.calls,
            "revenue_usd": format_usd(self.revenue_nano_usd),
            "cost_usd": format_usd(self.cost_nano_usd),
            "margin_usd": format_usd(margin),
            "margin_percent": percent,
            "unknown_calls": self.unknown_calls,
            "unknown_revenue_usd": format_usd(unknown),
        }


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    text = "show what calls brought, what they cost at their upstreams, and the margin, in USD"
    parser = add_command(nouns, "margin", text, with_database(margin, check=check_days))
    parser.add_argument(
        "--by", choices=tuple(COLUMNS), default="channel", help="a line for each (%(default)s)"
    )
    add_days(parser)


def add_days(parser: Parser) -> None:
    """Add the options of the first and the last day."""
    parser.add_argument(
        "--from",
        dest="first",
        type=day,
        metavar="DAY",
        help=f"the first day (UTC), such as 2027-01-31; default: {DAYS - 1} days before the last",
    )
    parser.add_argument(
        "--to", dest="last", type=day, metavar="DAY", help="the last day; default: today"
    )


def day(text: str) -> date:
    """Parse a day. Raises ArgumentTypeError."""
    try:
        if len(text) == len("2027-01-31"):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!a} is not a day such as 2027-01-31")


def check_days(options: Namespace) -> None:
    """Set the defaults of missing days. Raises UsageFault."""
    if options.last is None:
        options.last = max(datetime.now(UTC).date(), options.first or date.min)
    if options.first is None:
        options.first = date.fromordinal(max(1, options.last.toordinal() - DAYS + 1))
    if options.first > options.last:
        raise UsageFault(f"--from {options.first} is after --to {options.last}")


async def margin(context: Context, options: Namespace) -> Result:
    sql = SQL["margins"].replace("{by}", COLUMNS[options.by])
    rows = await context.database.fetch_all(sql, {"first": options.first, "last": options.last})
    by_name = {name or None: MarginSums(*figures) for name, *figures in rows}
    total = sum(by_name.values(), MarginSums())
    record = {
        "by": options.by,
        "from": str(options.first),
        "to": str(options.last),
        "rows": [{options.by: name, **sums.record} for name, sums in by_name.items()],
        "total": total.record,
    }
    return Result(record, _text(record, options.by, total))


def _text(record: Mapping[str, Any], by: str, total: MarginSums) -> str:
    head = f"{record['from']} to {record['to']} (UTC)"
    lines: Sequence[Mapping[str, Any]] = record["rows"]
    if not lines:
        return f"{head}: no calls"
    whole = {by: "total", **record["total"]}
    text = f"{head}\n\n{table([*lines, whole], (by, *FIGURES))}"
    if total.unknown_calls:
        text += (
            f"\n\n{total.unknown_calls} calls, which brought {whole['unknown_revenue_usd']} USD,"
            " are of unknown cost and in no margin: state a `cost` where their channels are bound,"
            " unless their responses were lost"
        )
    return text

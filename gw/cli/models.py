"""`gw models`: add models and prices of a price list to the configuration, or compare the two.

The list is the bundled one (`gw/price_list`) or a file. `import` opens no connection; a running
gateway uses the new prices once it reloads the file.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.store.embedded.postgres import EmbeddedPostgres
from actors.wallet.money import format_usd
from gw.cli.arguments import add_command, add_noun, count
from gw.cli.context import find_config, opened
from gw.cli.failures import CommandRefused, UsageFault
from gw.cli.files import replace_file
from gw.cli.output import Result, sheet, table
from gw.config.config import Config
from gw.config.faults import ConfigFaults
from gw.config.load import load_text, read_text
from gw.config.reload import check_price_moves
from gw.moving_in.litellm.prices import read_prices
from gw.price_list import comparison
from gw.price_list.filling import UNPRICED, fill
from gw.price_list.reading import PriceList, bundled
from gw.price_list.repricing import reprice

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers


DAYS_MAX = 366
DAYS = 30
CHANGE_COLUMNS = ("model", "price", "now", "list", "difference", "dated")
CALL_COLUMNS = ("model", "calls", "more_usd")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "models", "fill models and prices from a price list, compare with one")

    text = "add the models that channels could serve, and prices that are missing"
    import_parser = _with_list(add_command(verbs, "import", text, import_))
    import_parser.add_argument(
        "--model", action="append", default=[], metavar="ID", help="only this one; may be repeated"
    )
    import_parser.add_argument(
        "--apply",
        "--replace-prices",  # the former name
        dest="is_replacing",
        action="store_true",
        help="prices that are there give way to the list's: what `diff` shows is done",
    )
    import_parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="ID",
        help="also where the price of this model moves tenfold or more; may be repeated",
    )
    import_parser.add_argument("--dry-run", action="store_true", help="tell, and write nothing")

    text = "show what a price list would change: per million tokens or unit, and in USD"
    diff_parser = _with_list(add_command(verbs, "diff", text, diff))
    diff_parser.add_argument(
        "--days",
        type=days,
        metavar="N",
        help=f"what the calls of the last N days, up to {DAYS_MAX}, would have cost more;"
        f" default: {DAYS}, where there is a database",
    )


def import_(options: Namespace) -> Result:
    path = find_config(options)
    price_list = _price_list(options)
    text = read_text(path)
    only = frozenset(options.model)
    moved = _leaps(path, text, price_list, only) if options.is_replacing else {}
    refused = [one for one in moved if one not in options.accept]
    if refused:
        moves = "; ".join(f"{one}: {', '.join(moved[one])}" for one in refused)
        words = " ".join(f"--accept {one}" for one in refused)
        raise CommandRefused(
            f"prices move tenfold or more, and nothing was written: {moves}. If that is meant,"
            f" {words}",
            "price_moved",
        )
    filled = fill(
        text,
        os.environ,
        price_list,
        source=path,
        is_replacing=options.is_replacing,
        only=only,
    )
    is_changed = filled.text != text
    if is_changed and not options.dry_run:
        replace_file(path, filled.text, before=text)
    record: dict[str, Any] = {
        "file": str(path),
        "list": price_list.file,
        "dated": str(price_list.dated),
        "written": is_changed and not options.dry_run,
        "added": filled.added,
        "priced": filled.priced,
        "replaced": filled.replaced,
        "unpriced": filled.unpriced,
        "without_price": filled.without_price,
        **_unmapped(price_list),
    }
    if moved and _is_refused_by_a_reload(path, text, filled.text):
        record["needs_restart"] = list(moved)
    return Result(record, sheet(record))


def _leaps(
    path: Path, text: str, price_list: PriceList, only: frozenset[str]
) -> dict[str, list[str]]:
    """Return the models whose prices change tenfold or more, with these members."""
    config = load_text(text, os.environ, source=path, is_priced=False)
    found: dict[str, list[str]] = {}
    for one in comparison.compare(config.registry, price_list).differing:
        if one.model.price != UNPRICED and (not only or one.model.id in only):
            moves = [
                f"{c.member} from {_plain(c.now) or 'none'} to {_plain(c.listed) or 'none'}"
                for c in comparison.leaps(one)
            ]
            if moves:
                found[one.model.id] = moves
    return found


def _is_refused_by_a_reload(path: Path, *texts: str) -> bool:
    configs = [load_text(one, os.environ, source=path, is_priced=False) for one in texts]
    try:
        check_price_moves(*configs)
    except ConfigFaults:
        return True
    return False


def days(text: str) -> int:
    """Parse a number of days."""
    number = count(text)
    if number > DAYS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is more than {DAYS_MAX}")
    return number


def diff(options: Namespace) -> Result:
    path = find_config(options)
    config = load_text(read_text(path), os.environ, source=path, is_priced=False)
    price_list = _price_list(options)
    found = comparison.compare(config.registry, price_list)
    record: dict[str, Any] = {
        "file": str(path),
        "list": price_list.file,
        "dated": str(price_list.dated),
        "changes": [
            _change_record(one, change) for one in found.differing for change in one.changes
        ],
        "new": list(found.new),
        "unpriced": list(found.unpriced),
        "not_listed": list(found.not_listed),
        **_unmapped(price_list),
    }
    shown = {name: value for name, value in record.items() if name != "changes"}
    text = [table(record["changes"], CHANGE_COLUMNS) if record["changes"] else "no price differs"]
    days = options.days or (DAYS if _has_database(config) else None)
    if days is not None:
        calls, more_nano_usd = asyncio.run(_more(config, found.differing, days))
        record["days"] = shown["days"] = days
        record["calls"] = calls
        record["more_usd"] = shown["more_usd"] = format_usd(more_nano_usd)
        if calls:
            text += ["", table(calls, CALL_COLUMNS)]
    return Result(record, "\n".join([*text, "", sheet(shown)]))


def _has_database(config: Config) -> bool:
    """Whether a database exists: a comparison may precede the first start of a gateway."""
    try:
        return bool(config.database_url) or EmbeddedPostgres(config.data_dir).is_made
    except OSError:  # its folder belongs to another user
        return False


async def _more(
    config: Config, differing: Sequence[comparison.Difference], days: int
) -> tuple[list[dict[str, Any]], int]:
    """Return the additional cost of calls by model, and their total in nano-USD."""
    since = datetime.now(UTC) - timedelta(days=days)
    async with opened(config) as context:
        found = await reprice(context.database, differing, since=since)
    calls = [
        {
            "model": one.model.id,
            "calls": repriced.calls,
            "more_usd": format_usd(repriced.more_nano_usd),
        }
        for one in differing
        if (repriced := found.get(one.model.id)) is not None
    ]
    return calls, sum(one.more_nano_usd for one in found.values())


def _change_record(
    difference: comparison.Difference, change: comparison.PriceChange
) -> dict[str, Any]:
    dated = [str(row.source.dated or "undated") for row in difference.rows]
    return {
        "model": difference.model.id,
        "price": change.member,
        "now": _plain(change.now),
        "list": _plain(change.listed),
        "difference": _plain(change.difference),
        "dated": ", ".join(dict.fromkeys(dated)),
    }


def _plain(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount.normalize():f}"


def _unmapped(price_list: PriceList) -> dict[str, Any]:
    """Return the entries that a list of another form could not express, if any."""
    return {"unmapped": list(price_list.unmapped)} if price_list.unmapped else {}


def _price_list(options: Namespace) -> PriceList:
    if options.list is not None and options.source is not None:
        raise UsageFault("one list is read: name it once")
    source: Path | None = options.list if options.source is None else options.source
    return bundled() if source is None else read_prices(source)


def _with_list(parser: Parser) -> Parser:
    parser.add_argument(
        "list",
        nargs="?",
        type=Path,
        metavar="LIST",
        help="another price list than the one that comes with the program, or LiteLLM's",
    )
    # The former name of LIST.
    parser.add_argument("--from", dest="source", type=Path, help=argparse.SUPPRESS)
    return parser

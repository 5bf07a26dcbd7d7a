"""`gw models`: models and prices of a price list into the configuration, and what another changes.

Connects to nothing: the list is the one that comes with the program (`gw/price_list`), or a file.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.wallet.pricing import format_usd
from gw.cli.arguments import (
    CommandRefused,
    Result,
    add_command,
    add_noun,
    count,
    find_config,
    opened,
    sheet,
    table,
)
from gw.config.config import Config
from gw.config.load import load_text, read_text
from gw.price_list.filling import Change, Difference, compare, fill, usage_of
from gw.price_list.reading import PriceList, bundled, read

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers


# Puts a file in place whole: a reader finds the old one or the new one, whatever happens.


def replace_file(path: Path, text: str, *, before: str) -> None:
    """Write `text` in place of `before`, which a file has held, with the same rights.

    Raises CommandRefused when the file has been changed meanwhile, or it cannot be written.
    """
    target = path.resolve()  # what a link leads to, not the link
    if read_text(target) != before:
        raise CommandRefused(f"{path} was changed meanwhile: try again", "file_changed")
    _put(target, text, mode=target.stat().st_mode & 0o777)


def create_file(path: Path, text: str) -> None:
    """Write a file that was not there. Raises CommandRefused, also when it is there by now."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandRefused(f"{path} cannot be written: {error.strerror}", "no_file") from None


def write_secrets(path: Path, text: str) -> None:
    """Write a file that its owner alone may read. Raises CommandRefused."""
    _put(path, text, mode=0o600)


def _put(path: Path, text: str, *, mode: int) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with os.fdopen(
                os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            with suppress(FileNotFoundError):
                beside.unlink()
            raise
    except OSError as error:
        raise CommandRefused(f"{path} cannot be written: {error.strerror}", "no_file") from None


DAYS_MAX = 366
CHANGE_COLUMNS = ("model", "price", "now", "list", "difference", "dated")
CALL_COLUMNS = ("model", "calls", "more_usd")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "models", "fill models and prices from a price list, compare with one")

    text = "add the models that channels could serve, and prices that are missing"
    import_parser = _from(add_command(verbs, "import", text, import_))
    import_parser.add_argument(
        "--model", action="append", default=[], metavar="ID", help="only this one; may be repeated"
    )
    import_parser.add_argument(
        "--replace-prices", action="store_true", help="prices that are there give way to the list's"
    )
    import_parser.add_argument("--dry-run", action="store_true", help="tell, and write nothing")

    text = "show what a price list would change, per million tokens or unit"
    diff_parser = _from(add_command(verbs, "diff", text, diff))
    diff_parser.add_argument(
        "--days",
        type=days,
        metavar="N",
        help=f"and what the calls of the last N days, up to {DAYS_MAX}, would have cost more",
    )


def import_(options: Namespace) -> Result:
    path = find_config(options)
    price_list = _price_list(options)
    text = read_text(path)
    filled = fill(
        text,
        os.environ,
        price_list,
        source=path,
        is_replacing=options.replace_prices,
        only=frozenset(options.model),
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
    }
    return Result(record, sheet(record))


def days(text: str) -> int:
    """Read a number of days."""
    number = count(text)
    if number > DAYS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is more than {DAYS_MAX}")
    return number


def diff(options: Namespace) -> Result:
    path = find_config(options)
    config = load_text(read_text(path), os.environ, source=path, is_priced=False)
    price_list = _price_list(options)
    found = compare(config.registry, price_list)
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
    }
    shown = {name: value for name, value in record.items() if name != "changes"}
    text = [table(record["changes"], CHANGE_COLUMNS) if record["changes"] else "no price differs"]
    if options.days is not None:
        calls, more_nano_usd = asyncio.run(_more(config, found.differing, options.days))
        record["days"] = shown["days"] = options.days
        record["calls"] = calls
        record["more_usd"] = shown["more_usd"] = format_usd(more_nano_usd)
        if calls:
            text += ["", table(calls, CALL_COLUMNS)]
    return Result(record, "\n".join([*text, "", sheet(shown)]))


async def _more(
    config: Config, differing: Sequence[Difference], days: int
) -> tuple[list[dict[str, Any]], int]:
    """What calls of models whose price differs would have cost more, and all of them together.

    Counted are calls billed by tokens; those billed by the piece are not.
    """
    by_id = {one.model.id: one for one in differing if one.model.endpoint_type is None}
    async with opened(config) as context:
        usage = await usage_of(context.database, list(by_id), days=days)
    more = {name: by_id[name].more_nano_usd(one.tokens) for name, one in usage.items()}
    calls = [
        {"model": name, "calls": usage[name].calls, "more_usd": format_usd(more[name])}
        for name in by_id
        if name in usage
    ]
    return calls, sum(more.values())


def _change_record(difference: Difference, change: Change) -> dict[str, Any]:
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


def _price_list(options: Namespace) -> PriceList:
    return bundled() if options.source is None else read(options.source)


def _from(parser: Parser) -> Parser:
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        metavar="FILE",
        help="another price list than the one that comes with the program",
    )
    return parser

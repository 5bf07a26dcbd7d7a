"""Parses a provider's usage export into figures per model and day (UTC).

Supported, recognised by their members or columns: of OpenAI the pages of the usage and costs API
and the CSV files of the dashboard; of Anthropic the usage and cost reports and the CSV files of the
console; of Google the rows of the Cloud Billing export as JSON or CSV, and the CSV file of the cost
table. A file of any size is parsed piece by piece: one bucket or row is in memory at a time.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import chain
from typing import Any, Protocol, TypeAlias

from actors.wallet.money import NANO_PER_USD

# One bucket of a page, or one row; a day of an organisation with thousands of keys is smaller.
PIECE_MAX = 16 * 1024 * 1024
LINE_MAX = 1024 * 1024
CHUNK = 64 * 1024
# Far more than any account has; a figure with more digits is refused.
FIGURE_DIGITS_MAX = 30

# By member: `input`, which includes the tokens read from a cache (`cached`) and written to one
# (`cache_write`); `output`; `cost`, in nano-USD.
Figures: TypeAlias = Mapping[str, Fraction]


class TextFile(Protocol):
    """The part of a text file's interface that is used here."""

    def read(self, size: int, /) -> str:
        """Return at most `size` characters; none at the end. Raises UnicodeDecodeError."""


class NoExport(Exception):
    """The file is no supported export, or is broken; the message gives the position."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A provider's figures of one model on one day; only the members that the export states.

    `model` is the provider's name, or a description that contains it; None: nothing was used.
    """

    day: date
    model: str | None
    figures: Figures


@dataclass(frozen=True, slots=True)
class Export:
    """An export and the iterator of its entries, which raises NoExport."""

    provider: str  # `openai`, `anthropic` or `google`
    entries: Iterator[Entry]


Piece: TypeAlias = Mapping[str, Any]
Reader: TypeAlias = Callable[[Piece], Iterator[Entry]]


def read(file: TextFile) -> Export:
    """Recognise an export by its first piece, and parse it. Raises NoExport."""
    text = _Text(file)
    start = text.peek()
    if start in ("{", "["):
        pieces = _json_pieces(text)
        form_of: Callable[[Piece], tuple[str, Reader]] = _form_of_object
    else:
        pieces = _csv_rows(text)
        form_of = _form_of_row
    first = next(pieces, None)
    if first is None:
        raise NoExport("it is empty")
    provider, reader = form_of(first)
    return Export(provider, _entries(provider, reader, form_of, chain([first], pieces)))


def _entries(
    provider: str,
    reader: Reader,
    form_of: Callable[[Piece], tuple[str, Reader]],
    pieces: Iterator[Piece],
) -> Iterator[Entry]:
    for number, piece in enumerate(pieces, start=1):
        try:
            if form_of(piece) != (provider, reader):
                raise NoExport("it is of another form than the first one")
            yield from reader(piece)
        except (NoExport, AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise NoExport(f"bucket or row {number}: {what}") from error


# The forms of exports, one reader each.


def _form_of_object(piece: Piece) -> tuple[str, Reader]:
    for provider, reader, keys in (
        ("openai", _openai_bucket, {"start_time", "results"}),
        ("anthropic", _anthropic_bucket, {"starting_at", "results"}),
        ("google", _google_row, {"sku", "usage_start_time", "cost"}),
    ):
        if keys <= piece.keys():
            return provider, reader
    raise NoExport(f"no known export has objects with {_named(piece)}")


def _form_of_row(piece: Piece) -> tuple[str, Reader]:
    for provider, reader, keys in _CSV_FORMS:
        if keys <= piece.keys():
            return provider, reader
    raise NoExport(f"no known export has the columns {_named(piece)}")


def _named(piece: Piece) -> str:
    names = [str(name)[:40] for name in list(piece)[:6]]
    return ", ".join(names) + (", …" if len(piece) > len(names) else "")


def _openai_bucket(piece: Piece) -> Iterator[Entry]:
    """Parse a bucket of `/v1/organization/usage/…` or `/v1/organization/costs`."""
    day = _day_of_unix(piece["start_time"])
    yield Entry(day, None, {})
    for result in piece["results"]:
        if result.get("amount") is not None:
            amount = result["amount"]
            yield _openai_cost(day, result.get("line_item"), amount["value"], amount["currency"])
        elif result.get("input_tokens") is not None:
            yield _openai_tokens(day, result)


def _openai_tokens(day: date, result: Piece) -> Entry:
    if not result.get("model"):
        raise NoExport("it names no models: request it with group_by[]=model")
    figures = {
        "input": _count(result["input_tokens"]),
        "cached": _count(result.get("input_cached_tokens")),
        "output": _count(result.get("output_tokens")),
    }
    if "input_cache_write_tokens" in result:
        figures["cache_write"] = _count(result["input_cache_write_tokens"])
    return Entry(day, result["model"], figures)


def _openai_cost(day: date, line_item: Any, value: Any, currency: str) -> Entry:
    """Return the cost of one `line_item`: a model and what was billed, `gpt-5, input`."""
    if not line_item:
        raise NoExport("it names no models: request it with group_by[]=line_item")
    model = str(line_item).partition(", ")[0]
    return Entry(day, model, {"cost": _nano_usd(value, currency)})


def _openai_csv_tokens(piece: Piece) -> Iterator[Entry]:
    yield _openai_tokens(_day_of_unix(piece["start_time"]), piece)


def _openai_csv_cost(piece: Piece) -> Iterator[Entry]:
    day = _day_of_unix(piece["start_time"])
    value, currency = piece["amount_value"], piece["amount_currency"]
    yield _openai_cost(day, piece["line_item"], value or "0", currency or "usd")


def _anthropic_bucket(piece: Piece) -> Iterator[Entry]:
    """Parse a bucket of `/v1/organizations/usage_report/messages` or `…/cost_report`."""
    day = _day_of_text(piece["starting_at"])
    yield Entry(day, None, {})
    for result in piece["results"]:
        if result.get("amount") is not None:
            # A decimal number of cents.
            cents = _nano_usd(result["amount"], result.get("currency") or "USD")
            name = result.get("model") or result.get("description")
            if not name:
                raise NoExport("it names no models: request it with group_by[]=description")
            yield Entry(day, name, {"cost": cents / 100})
            continue
        if not result.get("model"):
            raise NoExport("it names no models: request it with group_by[]=model")
        written = result.get("cache_creation") or {}
        yield Entry(
            day,
            result["model"],
            _of_anthropic(
                fresh=result["uncached_input_tokens"],
                cached=result.get("cache_read_input_tokens"),
                written=(
                    written.get("ephemeral_5m_input_tokens"),
                    written.get("ephemeral_1h_input_tokens"),
                ),
                output=result["output_tokens"],
            ),
        )


def _anthropic_csv_tokens(piece: Piece) -> Iterator[Entry]:
    prefix = "usage_input_tokens_cache_write"
    figures = _of_anthropic(
        fresh=piece["usage_input_tokens_no_cache"],
        cached=piece.get("usage_input_tokens_cache_read"),
        written=[piece.get(name) for name in (prefix, f"{prefix}_5m", f"{prefix}_1h")],
        output=piece["usage_output_tokens"],
    )
    yield Entry(_day_of_text(piece["usage_date_utc"]), piece["model_version"], figures)


def _of_anthropic(*, fresh: Any, cached: Any, written: Any, output: Any) -> Figures:
    """Return the figures; Anthropic's `input` excludes the tokens of caches."""
    writes = sum(map(_count, written), Fraction())
    read_from_cache = _count(cached)
    return {
        "input": _count(fresh) + read_from_cache + writes,
        "cached": read_from_cache,
        "cache_write": writes,
        "output": _count(output),
    }


def _anthropic_csv_cost(piece: Piece) -> Iterator[Entry]:
    name = piece["model"] or piece.get("cost_type") or piece.get("token_type")
    cost = _nano_usd(piece["cost_usd"] or "0", "USD")
    yield Entry(_day_of_text(piece["usage_date_utc"]), name, {"cost": cost})


# The services with SKUs of models. An export contains those of all other services, too.
_GOOGLE_SERVICES = ("gemini api", "generative language api", "vertex ai", "agent platform")


def _google_row(piece: Piece) -> Iterator[Entry]:
    """Parse a row of the export to BigQuery, as `bq extract` writes it in JSON."""
    usage = piece.get("usage") or {}
    service, sku = (piece.get(name) or {} for name in ("service", "sku"))
    day = _day_of_text(piece["usage_start_time"])
    yield from _of_google(
        day,
        str(service.get("description") or ""),
        str(sku["description"]),
        usage.get("amount"),
        _nano_usd(piece["cost"], piece.get("currency") or "USD"),
    )


def _google_csv(piece: Piece) -> Iterator[Entry]:
    """Parse such a row of a CSV file, whose columns join the names by a point or an underscore."""

    def value(*names: str) -> Any:
        return next((piece[one] for one in (".".join(names), "_".join(names)) if one in piece), "")

    cost = _nano_usd(piece["cost"] or "0", piece.get("currency") or "USD")
    day = _day_of_text(piece["usage_start_time"])
    service, sku = value("service", "description"), value("sku", "description")
    yield from _of_google(day, service, sku, value("usage", "amount"), cost)


def _google_cost_table(piece: Piece) -> Iterator[Entry]:
    """Parse a row of the cost table; its days are in the Pacific time zone."""
    if not piece["SKU description"]:
        return  # a row of totals
    unrounded = piece.get("Unrounded cost ($)")
    cost = _nano_usd(unrounded or piece["Cost ($)"] or "0", "USD")
    day = _day_of_text(piece["Usage start date"])
    service, sku = piece["Service description"], piece["SKU description"]
    yield from _of_google(day, service, sku, piece.get("Usage amount"), cost)


def _of_google(day: date, service: str, sku: str, amount: Any, cost: Fraction) -> Iterator[Entry]:
    if not any(one in service.lower() for one in _GOOGLE_SERVICES):
        return
    words = sku.lower()
    figures = {"cost": cost}
    if "token" in words or "predictions" in words:
        count = _count(amount)
        if "output" in words:
            figures["output"] = count
        elif "storage" not in words:
            figures["input"] = count
            if "cach" in words:
                figures["cached"] = count
    yield Entry(day, sku, figures)


_CSV_FORMS: tuple[tuple[str, Reader, set[str]], ...] = (
    ("openai", _openai_csv_tokens, {"start_time", "model", "input_tokens", "output_tokens"}),
    ("openai", _openai_csv_cost, {"start_time", "amount_value", "amount_currency", "line_item"}),
    (
        "anthropic",
        _anthropic_csv_tokens,
        {"usage_date_utc", "model_version", "usage_input_tokens_no_cache", "usage_output_tokens"},
    ),
    ("anthropic", _anthropic_csv_cost, {"usage_date_utc", "model", "cost_usd"}),
    ("google", _google_csv, {"sku_description", "usage_start_time", "cost"}),
    ("google", _google_csv, {"sku.description", "usage_start_time", "cost"}),
    (
        "google",
        _google_cost_table,
        {"Service description", "SKU description", "Usage start date", "Cost ($)"},
    ),
)


# Values.


def _count(value: Any) -> Fraction:
    """Return a count; 0 without a value. Raises NoExport."""
    number = _number(0 if value is None or value == "" else value)
    if number < 0 or number.denominator != 1:
        raise NoExport(f"{str(value)[:40]!r} is no count")
    return number


def _nano_usd(value: Any, currency: str) -> Fraction:
    if currency.upper() != "USD":
        raise NoExport(f"its amounts are in {currency[:10]}, which is not USD")
    return _number(value) * NANO_PER_USD


def _number(value: Any) -> Fraction:
    if isinstance(value, str):
        value = value.replace(",", "").strip()
    try:
        number = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        raise NoExport(f"{str(value)[:40]!r} is no number") from None
    if not number.is_finite() or abs(number.adjusted()) > FIGURE_DIGITS_MAX:
        raise NoExport(f"{str(value)[:40]!r} is no number of an account")
    return Fraction(number)


def _day_of_unix(value: Any) -> date:
    try:
        return datetime.fromtimestamp(int(value), UTC).date()
    except (TypeError, ValueError, OverflowError, OSError):
        raise NoExport(f"{str(value)[:40]!r} is no instant in seconds") from None


_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.\d+)?)?)? ?(Z|UTC|[+-]\d\d:?\d\d)?",
    re.ASCII,
)


def _day_of_text(value: Any) -> date:
    """Return the day (UTC) of an instant; without a time zone it is in UTC."""
    match = _STAMP.fullmatch(str(value).strip())
    if match is None:
        raise NoExport(f"{str(value)[:40]!r} is no day")
    day, minutes, seconds, zone = match.groups()
    zone = "+00:00" if zone in (None, "Z", "UTC") else zone
    stamp = f"{day}T{minutes or '00:00'}:{seconds or '00'}{zone}"
    return datetime.fromisoformat(stamp).astimezone(UTC).date()


# The pieces of a file.


_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_BETWEEN = re.compile(r"[ \t\r\n\ufeff,\[\]]*")


class _Text:
    """A file's text, buffered from the current position on."""

    def __init__(self, file: TextFile) -> None:
        self._file = file
        self._has_ended = False
        self.buffer = ""
        self.position = 0

    def more(self) -> bool:
        """Read a chunk that doubles the unread text, so that parsing again stays linear in time."""
        if self._has_ended:
            return False
        rest = self.buffer[self.position :]
        if len(rest) > PIECE_MAX:
            raise NoExport(f"a bucket or row is longer than {PIECE_MAX} characters, or broken")
        try:
            text = self._file.read(max(CHUNK, len(rest)))
        except UnicodeDecodeError as error:
            raise NoExport(f"it is no text in UTF-8: {error.reason}") from None
        self._has_ended = not text
        self.buffer, self.position = rest + text, 0
        return bool(text)

    def peek(self, passed_over: re.Pattern[str] = _BLANK) -> str:
        """Skip `passed_over`, and return the next character; empty at the end."""
        while True:
            match = passed_over.match(self.buffer, self.position)
            assert match is not None
            self.position = match.end()
            if self.position < len(self.buffer) or not self.more():
                return self.buffer[self.position : self.position + 1]

    def line(self) -> str:
        """Return the next line with its end; empty at the end. Raises NoExport."""
        while (end := self.buffer.find("\n", self.position)) < 0:
            if len(self.buffer) - self.position > LINE_MAX:
                raise NoExport(f"a line is longer than {LINE_MAX} characters")
            if not self.more():
                end = len(self.buffer) - 1
                break
        line = self.buffer[self.position : end + 1]
        self.position = end + 1
        return line


# The cost table begins with some lines on the invoice, before its columns.
_TITLES_MAX = 20


def _csv_rows(text: _Text) -> Iterator[Piece]:
    """Return the rows of a CSV file by column. Raises NoExport."""
    rows = csv.reader(iter(text.line, ""))
    try:
        first: list[str] = []
        for row in rows:
            header = [name.strip() for name in row]
            first = first or header
            if any(keys <= set(header) for _, _, keys in _CSV_FORMS):
                break
            if rows.line_num >= _TITLES_MAX:
                raise NoExport(_no_columns(first))
        else:
            raise NoExport(_no_columns(first) if first else "it is empty")
        for row in rows:
            if row:
                yield dict(zip(header, [*row, *[""] * (len(header) - len(row))], strict=False))
    except csv.Error as error:
        raise NoExport(f"line {rows.line_num}: {error}") from None


def _no_columns(names: list[str]) -> str:
    return f"no known export has the columns {_named(dict.fromkeys(names))}"


_DECODER = json.JSONDecoder(parse_float=Decimal)
_BROKEN = "it is no JSON that can be read to its end"


def _json_pieces(text: _Text) -> Iterator[Piece]:
    """Return the objects of a file: those of a page's `data`, or those of the top level.

    They may be in a list or follow each other, and so may pages. Raises NoExport.
    """
    while (start := text.peek(_BETWEEN)) != "":
        if start != "{":
            raise NoExport(f"{start!r} stands where an object should be")
        yield from _object(text)


def _object(text: _Text) -> Iterator[Piece]:
    """Return the objects of an object's `data`, if that is a list; else the object itself."""
    text.position += 1
    members: dict[str, Any] = {}
    is_page = False
    while (start := text.peek(_BETWEEN)) != "}":
        if start != '"':
            raise NoExport(_BROKEN)
        name = _value(text)
        if text.peek() != ":":
            raise NoExport(_BROKEN)
        text.position += 1
        if text.peek() == "[" and name == "data":
            is_page = True
            text.position += 1
            while text.peek(_BETWEEN) == "{":
                yield _value(text)
        else:
            members[name] = _value(text)
    text.position += 1
    if not is_page:
        yield members


def _value(text: _Text) -> Any:
    """Decode the value at the current position."""
    while True:
        try:
            value, end = _DECODER.raw_decode(text.buffer, text.position)
        except RecursionError:
            raise NoExport("it is nested too deeply") from None
        except ValueError:
            if not text.more():
                raise NoExport(_BROKEN) from None
            continue
        length = end - text.position
        if end < len(text.buffer) or not text.more():  # a number may continue
            text.position += length
            return value

"""The pieces of an export's file, one at a time: rows of CSV, objects of JSON."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from gw.price_list.exports.export import NoExport, Piece, TextFile
from gw.price_list.exports.forms import CSV_FORMS, named

# One bucket of a page, or one row; a day of an organisation with thousands of keys is smaller.
PIECE_MAX = 16 * 1024 * 1024
LINE_MAX = 1024 * 1024
CHUNK = 64 * 1024

_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_BETWEEN = re.compile(r"[ \t\r\n\ufeff,\[\]]*")


class BufferedText:
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


def csv_rows(text: BufferedText) -> Iterator[Piece]:
    """Return the rows of a CSV file by column. Raises NoExport."""
    rows = csv.reader(iter(text.line, ""))
    try:
        first: list[str] = []
        for row in rows:
            header = [name.strip() for name in row]
            first = first or header
            if any(keys <= set(header) for _, _, keys in CSV_FORMS):
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
    return f"no known export has the columns {named(dict.fromkeys(names))}"


_DECODER = json.JSONDecoder(parse_float=Decimal)
_BROKEN = "it is no JSON that can be read to its end"


def json_pieces(text: BufferedText) -> Iterator[Piece]:
    """Return the objects of a file: those of a page's `data`, or those of the top level.

    They may be in a list or follow each other, and so may pages. Raises NoExport.
    """
    while (start := text.peek(_BETWEEN)) != "":
        if start != "{":
            raise NoExport(f"{start!r} stands where an object should be")
        yield from _object(text)


def _object(text: BufferedText) -> Iterator[Piece]:
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


def _value(text: BufferedText) -> Any:
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

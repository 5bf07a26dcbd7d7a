"""Reads the file of `gw key create --from`: a key a row, in CSV or JSON lines.

The members are the options without their dashes. A row becomes the words of a command line and goes
through the parser of one, so that a value means in a file what it means there.
"""

from __future__ import annotations

import csv
import json
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from channels.files import bounded, read_regular
from gw.cli.arguments import Parser
from gw.cli.failures import LineFault, LineFaults
from gw.keys.key import KEY
from gw.nouns.kinds import FLAG
from gw.nouns.refused import Invalid, Refused

# Keys of one file, which are made in one transaction, and its length.
ROWS_MAX = 10_000
BYTES_MAX = 16 * 1024 * 1024
# Faults that are listed.
FAULTS_MAX = 20
# Between models of one field of CSV.
SEPARATOR = ";"
STANDARD_INPUT = "-"

_OPTIONS = [one for one in KEY.new if one.is_option]
_NEEDED = [one.dest for one in _OPTIONS if one.is_required]
_SWITCHES = ("allow_none", *(one.dest for one in _OPTIONS if one.kind is FLAG))
_MODELS = "allow"
MEMBERS = (*(one.dest for one in _OPTIONS if one.kind is not FLAG), *_SWITCHES)
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class Row:
    """The options of one key, and the line of the file on which they end."""

    line: int
    options: Namespace


def read_rows(path: str, defaults: Namespace, *, check: Callable[[Namespace], None]) -> list[Row]:
    """Return the keys of a file. `defaults` are the options given beside it.

    Raises LineFaults, with all that is wrong in the file; Invalid if it cannot be read at all.
    """
    parser = Parser(prog="gw key create")
    KEY.add_options(parser, is_needed=False)
    rows: list[Row] = []
    faults: list[LineFault] = []
    for line, record in _records(_text(path)):
        if len(rows) + len(faults) == ROWS_MAX:
            raise Invalid(f"{path} has more than {ROWS_MAX} keys: make several files of it")
        try:
            options = _options(record, parser, defaults)
            check(options)
        except (Invalid, Refused, ArgumentTypeError) as error:
            faults.append(LineFault(line, str(error)))
        else:
            rows.append(Row(line, options))
    if faults:
        raise LineFaults(path, faults[:FAULTS_MAX], len(faults))
    if not rows:
        raise Invalid(f"{path} names no key")
    return rows


def _text(path: str) -> str:
    try:
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            data = read_regular(path, BYTES_MAX)
        bounded(data, BYTES_MAX, path)
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Invalid(f"{path!a} is not a file: {error}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{path} is not UTF-8, at byte {error.start}") from error


Record = Mapping[str, Any] | Exception


def _records(text: str) -> Iterator[tuple[int, Record]]:
    """Return the records of a file with their lines; an exception is the fault of a line."""
    return _json_lines(text) if text.lstrip().startswith("{") else _csv(text)


def _json_lines(text: str) -> Iterator[tuple[int, Record]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            # Amounts stay the text that they are.
            found = json.loads(
                line, parse_float=str, parse_int=str, object_pairs_hook=_without_twins
            )
        except Invalid as error:
            yield number, error
        except (ValueError, RecursionError) as error:
            yield number, Invalid(f"it is not JSON: {error}")
        else:
            yield number, found if isinstance(found, dict) else Invalid("it is not a JSON object")


def _without_twins(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        raise Invalid("a member is given twice")
    return found


def _csv(text: str) -> Iterator[tuple[int, Record]]:
    """Return the rows below a header; empty fields are not given."""
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        unknown = [name for name in header if name not in MEMBERS]
        if unknown or len(set(header)) != len(header):
            wrong = f"{unknown[0]!a} is none" if unknown else "one is given twice"
            raise Invalid(f"the first line names the columns, of {', '.join(MEMBERS)}: {wrong}")
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            if len(fields) != len(header):
                fault = f"it has {len(fields)} fields, and the header has {len(header)}"
                yield reader.line_num, Invalid(fault)
                continue
            given = {name: one for name, one in zip(header, fields, strict=True) if one.strip()}
            yield reader.line_num, {name: _field(name, one) for name, one in given.items()}
    except csv.Error as error:
        yield reader.line_num, Invalid(f"it is not CSV: {error}")


def _field(name: str, text: str) -> Any:
    """Return a field of CSV as the member of JSON that it stands for."""
    if name == _MODELS:
        return [one.strip() for one in text.split(SEPARATOR)]
    if name in _SWITCHES:
        return _TRUTHS.get(text.strip().lower(), text)
    return text.strip()


def _options(record: Record, parser: Parser, defaults: Namespace) -> Namespace:
    """Parse the options of one key. Raises Invalid."""
    if isinstance(record, Exception):
        raise record
    words: list[str] = []
    for name, value in record.items():
        if value is not None:
            words += _words(name, value)
    options = copy(defaults)
    if _MODELS in record or "allow_none" in record:
        options.allow, options.allow_none = None, False
    parser.parse_args(words, options)
    for name in _NEEDED:
        if getattr(options, name) is None:
            raise Invalid(f"{name}: it is needed")
    return options


def _words(name: str, value: Any) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise Invalid(f"{name}: it is true or false")
        return [option] if value else []
    if name == _MODELS:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise Invalid(f"{name}: it is a list of models")
        return [f"{option}={one}" for one in value] or ["--allow-none"]
    if name not in MEMBERS:
        raise Invalid(f"{name!a} is no member of a key: there are {', '.join(MEMBERS)}")
    if not isinstance(value, str):
        raise Invalid(f"{name}: it is text")
    return [f"{option}={value}"]

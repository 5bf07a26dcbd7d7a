"""The values of a client merged into the text of its file: other members and lines are kept."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from gw.setup import formats
from gw.setup.client import ClientFile


class Unmergeable(Exception):
    """A file that cannot be parsed, or not changed without loss; the message gives the reason."""


def merged(there: Any, values: Any) -> Any:
    """Merge values into `there`: tables by member, lists by the `name` of their items."""
    if isinstance(there, Mapping) and isinstance(values, Mapping):
        more = {name: merged(there.get(name), one) for name, one in values.items()}
        return {**there, **more}
    if isinstance(there, list) and isinstance(values, list):
        names = {one.get("name") for one in values if isinstance(one, Mapping)}
        kept = [
            one
            for one in there
            if one not in values and not (isinstance(one, Mapping) and one.get("name") in names)
        ]
        return kept + values
    return values


def merged_text(file: ClientFile, there: str) -> str:
    """Return the text of a file with the client's values merged in. Raises Unmergeable."""
    if not there.strip():
        return file.text
    values = _read(file.format, there)
    wanted = {name: one for name, one in file.usual.items() if name not in values}
    wanted.update(file.values)
    expected = merged(values, wanted)
    if expected == values:
        return there
    if file.format == "json":
        return formats.WRITERS["json"](expected)
    text = _EDITS[file.format](there, wanted)
    if file.format == "yaml" and not _is_same("yaml", text, expected):
        text = formats.WRITERS["yaml"](expected)
    if not _is_same(file.format, text, expected):
        raise Unmergeable("it has the same settings in another form")
    return text


def _is_same(kind: str, text: str, expected: object) -> bool:
    try:
        return bool(_read(kind, text) == expected)
    except Unmergeable:
        return False


def _read(kind: str, text: str) -> dict[str, Any]:
    """Parse the values of a file. Raises Unmergeable."""
    try:
        if kind == "env":
            return _env_values(text)
        values = _READERS[kind](text)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise Unmergeable(f"it cannot be read: {str(error)[:200]}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise Unmergeable("it holds no members")
    return values


def _env_values(text: str) -> dict[str, Any]:
    lines = (line.removeprefix("export ").strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


_READERS: Mapping[str, Callable[[str], Any]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
}


def _with_lines(there: str, lines: Mapping[str, str], pattern: str) -> str:
    """Replace the first line of each name, or append it."""
    for name, line in lines.items():
        found = re.search(pattern.format(re.escape(name)), there, re.MULTILINE)
        if found is None:
            there = there.rstrip("\n") + f"\n{line}\n"
        else:
            there = there[: found.start()] + line + there[found.end() :]
    return there


def _edited_env(there: str, values: Mapping[str, Any]) -> str:
    lines = {name: f"{name}={value}" for name, value in values.items()}
    return _with_lines(there, lines, r"^(?:export[ \t]+)?{}[ \t]*=.*$")


def _edited_yaml(there: str, values: Mapping[str, Any]) -> str:
    lines = {
        name: formats.WRITERS["yaml"]({name: one}).rstrip("\n") for name, one in values.items()
    }
    return _with_lines(there, lines, r"^{}[ \t]*:.*$")


# The header of a table, or of a list of tables.
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def _edited_toml(there: str, values: Mapping[str, Any]) -> str:
    """Set single values before the first table, and replace each table by name."""
    found = _HEADER.search(there)
    at = found.start() if found is not None else len(there)
    lines = {
        formats.toml_key(name): f"{formats.toml_key(name)} = {formats.toml_value(one)}"
        for name, one in values.items()
        if not isinstance(one, Mapping)
    }
    head = _with_lines(there[:at], lines, r"^{}[ \t]*=.*$").lstrip("\n")
    text = head + ("\n" if at < len(there) and not head.endswith("\n\n") else "") + there[at:]
    for path, table in formats.toml_tables(values):
        text = _with_table(text, path, table)
    return text


def _with_table(there: str, path: str, table: Mapping[str, Any]) -> str:
    name = re.escape(path)
    lines = {
        formats.toml_key(one): f"{formats.toml_key(one)} = {formats.toml_value(value)}"
        for one, value in table.items()
        if not isinstance(value, Mapping)
    }
    header = re.search(rf"^[ \t]*\[{name}\][ \t]*(?:#.*)?$", there, re.MULTILINE)
    if header is None:
        written = "".join(f"{line}\n" for line in lines.values())
        return there.rstrip("\n") + f"\n\n[{path}]\n{written}"
    after = _HEADER.search(there, header.end())
    end = after.start() if after is not None else len(there)
    body = _with_lines(there[header.end() : end].rstrip("\n"), lines, r"^{}[ \t]*=.*$")
    return there[: header.end()] + body.rstrip("\n") + "\n\n" * (after is not None) + there[end:]


_EDITS: Mapping[str, Callable[[str, Mapping[str, Any]], str]] = {
    "env": _edited_env,
    "yaml": _edited_yaml,
    "toml": _edited_toml,
}

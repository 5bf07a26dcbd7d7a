"""The formats of clients' files, written: JSON, TOML, YAML and environment variables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import yaml

Format = Literal["json", "toml", "yaml", "env"]


def json_text(values: Mapping[str, Any]) -> str:
    """Return values as an indented JSON file."""
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def yaml_text(values: Mapping[str, Any]) -> str:
    """Return values as a YAML file, in their order."""
    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True, width=1000)


def env_text(values: Mapping[str, Any]) -> str:
    """Return values as a file of environment variables."""
    return "".join(f"{name}={value}\n" for name, value in values.items())


def toml_text(values: Mapping[str, Any]) -> str:
    """Return values as a TOML file: plain values first, then each table under its full name."""
    lines = [f"{toml_key(name)} = {toml_value(one)}" for name, one in _plain(values)]
    for path, table in toml_tables(values):
        lines += ["", f"[{path}]"]
        lines += [f"{toml_key(name)} = {toml_value(one)}" for name, one in _plain(table)]
    return "\n".join(lines).strip() + "\n"


def toml_tables(values: Mapping[str, Any], above: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    """Return the tables that contain plain values, each under its full name."""
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, one in values.items():
        if isinstance(one, Mapping):
            path = f"{above}{toml_key(name)}"
            if any(True for _ in _plain(one)):
                found.append((path, one))
            found += toml_tables(one, f"{path}.")
    return found


def toml_value(value: object) -> str:
    """Return a plain value; JSON strings are TOML strings, except for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, one) for name, one in values.items() if not isinstance(one, Mapping)]


def toml_key(name: str) -> str:
    """Return a name as a key or a part of a table's name."""
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else toml_value(name)


WRITERS: Mapping[Format, Callable[[Mapping[str, Any]], str]] = MappingProxyType(
    {"json": json_text, "toml": toml_text, "yaml": yaml_text, "env": env_text}
)

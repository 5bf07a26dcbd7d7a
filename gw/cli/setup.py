"""`gw setup`: a coding agent's own configuration for this gateway, printed or merged.

`gw/setup.py` has what a client needs; this file reads, merges and writes its files. Members and
lines of other names are kept, and each changed file is copied first. A file that cannot be parsed
is not changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import tempfile
import tomllib
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from channels.registry import ModelSpec
from gw.admin import keys as admin
from gw.cli.arguments import (
    CommandRefused,
    Context,
    Result,
    add_command,
    identifier,
    opened,
    read_config,
)
from gw.config.config import Config
from gw.keys.issue import KeyWish
from gw.setup import (
    CLIENTS,
    NO_KEY,
    WRITERS,
    Access,
    ClientFile,
    ClientSetup,
    models_for,
    toml_key,
    toml_tables,
    toml_value,
)

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

KEY_PREFIX = "sk-platform-"
# The suffix of the copy made before a change.
BACKUP = ".before-gateway"

# --- One file merged with what is there ---


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
        return WRITERS["json"](expected)
    text = _EDITS[file.format](there, wanted)
    if file.format == "yaml" and not _is_same("yaml", text, expected):
        text = WRITERS["yaml"](expected)
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
    lines = {name: WRITERS["yaml"]({name: one}).rstrip("\n") for name, one in values.items()}
    return _with_lines(there, lines, r"^{}[ \t]*:.*$")


# The header of a table, or of a list of tables.
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def _edited_toml(there: str, values: Mapping[str, Any]) -> str:
    """Set single values before the first table, and replace each table by name."""
    found = _HEADER.search(there)
    at = found.start() if found is not None else len(there)
    lines = {
        toml_key(name): f"{toml_key(name)} = {toml_value(one)}"
        for name, one in values.items()
        if not isinstance(one, Mapping)
    }
    head = _with_lines(there[:at], lines, r"^{}[ \t]*=.*$").lstrip("\n")
    text = head + ("\n" if at < len(there) and not head.endswith("\n\n") else "") + there[at:]
    for path, table in toml_tables(values):
        text = _with_table(text, path, table)
    return text


def _with_table(there: str, path: str, table: Mapping[str, Any]) -> str:
    name = re.escape(path)
    lines = {
        toml_key(one): f"{toml_key(one)} = {toml_value(value)}"
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


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one file: `text` replaces `there`, which is None for a new file."""

    path: Path
    there: str | None
    text: str

    @property
    def outcome(self) -> str:
        if self.there is None:
            return "written"
        return "unchanged" if self.text == self.there else "merged"

    def write(self) -> None:
        """Write the file atomically, after a copy of it as it was. Raises OSError."""
        if self.text == self.there:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600
        if self.there is not None:
            mode = self.path.stat().st_mode & 0o777
            _replace(self.path.with_name(self.path.name + BACKUP), self.there, mode)
        _replace(self.path, self.text, mode)


def change_of(file: ClientFile, home: Path) -> Change:
    """Return the change of a file below `home`. Raises CommandRefused if it must not be changed."""
    path = (home / file.path).resolve()  # the target of a link is changed
    try:
        there = path.read_text(encoding="utf-8") if path.exists() else None
        return Change(path, there, merged_text(file, there or ""))
    except (Unmergeable, OSError, UnicodeDecodeError) as error:
        raise CommandRefused(f"{path} stays as it is: {error}", "not_merged") from None


def _replace(path: Path, text: str, mode: int) -> None:
    """Replace a file atomically."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


# --- The command ---


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    text = "print or merge a coding agent's own configuration for this gateway"
    parser = add_command(nouns, "setup", text, setup)
    parser.add_argument("client", choices=tuple(CLIENTS), metavar="CLIENT", help=", ".join(CLIENTS))
    key = parser.add_mutually_exclusive_group()
    key.add_argument("--key", metavar="KEY|ID", help="a key, or the id of one to be revealed")
    key.add_argument("--account", metavar="ID", type=identifier, help="make a key of this account")
    parser.add_argument("--url", metavar="URL", help="how the client reaches the gateway")
    parser.add_argument(
        "--model", metavar="MODEL", action="append", default=[], help="the first one is used"
    )
    parser.add_argument("--no-mcp", action="store_true", help="without the knowledge bases")
    parser.add_argument("--write", action="store_true", help="merge the files below the home")
    parser.add_argument("--home", metavar="DIR", type=Path, help="in place of the user's own")


def setup(options: Namespace) -> Result:
    config = read_config(options)
    client = CLIENTS[options.client]
    able, protocols = _models(config, options)
    if options.write and not (options.key or options.account):
        raise CommandRefused("--write needs a key: --key or --account", "no_key")
    home = options.home or Path.home()
    url, with_mcp = _url(config, options), not options.no_mcp

    def made_for(key: str, models: list[ModelSpec]) -> ClientSetup:
        return client.setup(Access(url, key, models, protocols, with_mcp))

    if options.write:
        for file in made_for(NO_KEY, able).files:  # before a key is made that no file would hold
            change_of(file, home)
    key, allowed = asyncio.run(_key(config, options))
    if allowed is not None:
        able = _allowed(able, allowed, options)
    made = made_for(key, able)
    outcomes = ["printed"] * len(made.files)
    if options.write:
        changes = [change_of(file, home) for file in made.files]
        outcomes = [change.outcome for change in changes]
        for change in changes:
            _write(change)
    files = [
        {"path": str(home / file.path), "outcome": outcome, "text": file.text}
        for file, outcome in zip(made.files, outcomes, strict=True)
    ]
    record = {
        "client": options.client,
        "models": [model.id for model in able],
        "files": files,
        "steps": list(made.steps),
    }
    return Result(record, _text(made, files, is_written=options.write))


def _write(change: Change) -> None:
    try:
        change.write()
    except OSError as error:
        raise CommandRefused(f"{change.path} cannot be written: {error}", "no_file") from None


def _models(config: Config, options: Namespace) -> tuple[list[ModelSpec], dict[str, list[str]]]:
    """Return the client's models in the order of the options. Raises CommandRefused."""
    client, registry = CLIENTS[options.client], config.registry
    named = [_named(config, name) for name in options.model]
    every = [model for model in registry.models.values() if model.callable]
    able, protocols = models_for(client, named or every, registry, config.translations)
    missing = [model.id for model in named if model not in able]
    if missing or not able:
        what = f"reaches {', '.join(missing)}" if missing else "reaches any model"
        raise CommandRefused(
            f"no channel or translation {what} for {client.title}: `gw matrix` shows what does",
            "not_reached",
        )
    return (named or able), protocols


def _allowed(able: list[ModelSpec], allowed: Sequence[str], options: Namespace) -> list[ModelSpec]:
    """Return the models that the key may use. Raises CommandRefused for a named one, or none."""
    found = [model for model in able if model.id in allowed]
    refused = [model.id for model in able if model not in found]
    if not found or (options.model and refused):
        raise CommandRefused(f"the key may not use {', '.join(refused)}", "not_allowed")
    return found


def _named(config: Config, name: str) -> ModelSpec:
    model = config.registry.resolve(name)
    if model is None or not model.callable:
        raise CommandRefused(f"there is no model {name}", "unknown_model")
    return model


def _url(config: Config, options: Namespace) -> str:
    url = options.url or config.public_url
    if not url:
        scheme = "https" if config.tls else "http"
        url = f"{scheme}://{config.listen}"
    if not re.fullmatch(r"https?://[^\s/?#]+(?:/[^\s?#]*)?", url):
        raise CommandRefused(f"{url} is no address: http://… or https://… is", "bad_url")
    return str(url).rstrip("/").removesuffix("/v1")


async def _key(config: Config, options: Namespace) -> tuple[str, Sequence[str] | None]:
    """Return the text of the given, revealed or created key, and its models; None: all of them.

    Which models the text of a key may use is not looked up.
    """
    if options.account is None and (options.key is None or options.key.startswith(KEY_PREFIX)):
        return options.key or NO_KEY, None
    async with opened(config) as context:
        return await _from_database(context, options)


async def _from_database(context: Context, options: Namespace) -> tuple[str, Sequence[str] | None]:
    async with context.change() as (session, actor):
        if options.key is not None:
            record, text = await admin.reveal(session, actor, options.key, context.secret())
        else:
            wish = KeyWish(account_id=options.account, name=options.client)
            record, text = await admin.create(session, actor, wish, context.secret())
    return text, record.allowed_models


def _text(made: ClientSetup, files: list[dict[str, str]], *, is_written: bool) -> str:
    if is_written:
        parts = [f"{one['outcome']} {one['path']}" for one in files]
    else:
        parts = [f"# {one['path']}\n{one['text']}" for one in files]
    return "\n".join([*parts, *made.steps])

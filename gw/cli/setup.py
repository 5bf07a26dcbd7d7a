"""`gw setup`: a coding agent's own configuration for this gateway, printed or merged.

`gw/setup/clients.py` has what a client needs. Members and lines of other names are kept, and each
changed file is copied first. A file that cannot be parsed is not changed.
"""

from __future__ import annotations

import asyncio
import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from channels.registry import ModelSpec
from gw.admin import keys as admin
from gw.cli.arguments import add_command, identifier
from gw.cli.client_files import FileChange, change_of
from gw.cli.context import Context, opened, read_config
from gw.cli.failures import CommandRefused
from gw.cli.output import Result
from gw.config.config import Config
from gw.keys.key import KeyWish
from gw.setup.client import NO_KEY, Access, ClientSetup, models_for
from gw.setup.clients import CLIENTS

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

KEY_PREFIX = "sk-platform-"


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


def _write(change: FileChange) -> None:
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

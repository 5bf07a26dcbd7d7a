"""`gw init`: write a first `gw.yaml` from the keys in the environment (running.md: Commands).

It neither prompts nor connects; `gw/price_list/starter.py` has the file.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from channels.kinds import KINDS, Kind
from gw.cli.arguments import add_command
from gw.cli.failures import CommandRefused
from gw.cli.output import Result, table
from gw.config.path import DEFAULT_NAME, name_of_file
from gw.price_list.reading import bundled
from gw.price_list.starter import kinds_found, missing, starter

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

COLUMNS = ("channel", "kind", "unset")


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    text = "write a first gw.yaml from the keys in the environment"
    parser = add_command(nouns, "init", text, init)
    parser.add_argument(
        "--provider",
        action="append",
        default=[],
        choices=tuple(KINDS),
        metavar="NAME",
        help=f"a channel of this kind, its key set or not; any of {', '.join(KINDS)}",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def init(options: Namespace) -> Result:
    name, by = name_of_file(getattr(options, "config", None), os.environ)
    path = Path.cwd() / name
    kinds = _kinds(options.provider)
    if not kinds:
        variables = ", ".join(kind.variables[0] for kind in KINDS.values() if kind.variables)
        raise CommandRefused(
            f"no key in the environment: set one of {variables}, or name a provider with "
            "--provider NAME",
            "no_provider",
        )
    _write(path, starter(kinds, os.environ, bundled()), is_forced=options.force)
    channels = [
        {"channel": kind.name, "kind": kind.name, "unset": missing(kind, os.environ)}
        for kind in kinds
    ]
    is_found = by != "--config" or path == Path.cwd() / DEFAULT_NAME
    named = "" if is_found else f" --config {path}"
    following = [f"gw check-config{named}", f"gw serve{named}"]
    text = [f"wrote {path}", "", table(channels, COLUMNS), "", "next:", *following]
    record = {"file": str(path), "channels": channels, "next": following}
    return Result(record, "\n".join(text))


def _kinds(named: Sequence[str]) -> list[Kind]:
    """Return the named kinds, and those with a key, each once."""
    found = [*(KINDS[name] for name in named), *kinds_found(os.environ)]
    return list({kind.name: kind for kind in found}.values())


def _write(path: Path, text: str, *, is_forced: bool) -> None:
    """Write the whole file; an existing one stays unless it `is_forced`."""
    try:
        with path.open("w" if is_forced else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CommandRefused(
            f"{path} is there and stays as it is: --force replaces it", "file_exists"
        ) from None
    except OSError as error:
        raise CommandRefused(f"{path} cannot be written: {error.strerror}", "no_file") from None

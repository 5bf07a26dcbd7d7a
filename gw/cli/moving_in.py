"""`gw import`: move in from another gateway. With `--dry-run`: what would come over and what not.

The sources and what is made of them are `gw/moving_in`. Nothing is written before all of it was
read, and the result read back; to import twice is to import once.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gw.cli.arguments import add_command, add_noun
from gw.cli.output import Result, sheet, table
from gw.cli.written_file import create_file, replace_file, write_secrets
from gw.config.find import DEFAULT_NAME, VARIABLE
from gw.config.load import read_text
from gw.moving_in.litellm import read_litellm
from gw.moving_in.plan import Plan
from gw.moving_in.writing import Written, env_file, read_env_file, write_plan
from gw.price_list.reading import bundled

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers

LEFT_COLUMNS = ("what", "reason")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "import", "move in from another gateway")

    text = "models, channels, prices and aliases of a configuration of LiteLLM's proxy"
    litellm_parser = _dry_run(add_command(verbs, "litellm", text, litellm))
    litellm_parser.add_argument("file", metavar="FILE", type=Path, help="its config.yaml")


def litellm(options: Namespace) -> Result:
    plan = read_litellm(options.file, bundled())
    target = Target(options)
    written = target.write(plan, is_dry_run=options.dry_run)
    return _result(target, plan, written, is_dry_run=options.dry_run)


class Target:
    """The configuration that is moved into, and the file of variables beside it."""

    def __init__(self, options: Namespace) -> None:
        named = getattr(options, "config", "") or os.environ.get(VARIABLE) or DEFAULT_NAME
        self.path = Path.cwd() / named
        self.is_new = not self.path.exists()
        self.text = "" if self.is_new else read_text(self.path)
        self.secrets_path = self.path.with_suffix(".env")
        self.env_text = read_text(self.secrets_path) if self.secrets_path.exists() else ""
        self.secrets: Mapping[str, str] = read_env_file(self.env_text)

    def write(self, plan: Plan, *, is_dry_run: bool) -> Written:
        """Put the plan into both files. Raises ConfigFaults, CommandRefused."""
        written = write_plan(plan, self.text, os.environ, source=self.path, secrets=self.secrets)
        if is_dry_run:
            return written
        if written.secrets != self.secrets:
            write_secrets(self.secrets_path, env_file(self.env_text, written.secrets))
        if self.is_new:
            create_file(self.path, written.text)
        elif written.text != self.text:
            replace_file(self.path, written.text, before=self.text)
        return written


def _result(target: Target, plan: Plan, written: Written, *, is_dry_run: bool) -> Result:
    secrets = str(target.secrets_path) if written.secrets else None
    named = "" if target.path.name == DEFAULT_NAME else f" --config {target.path}"
    following = [f"gw check-config{named}", f"gw serve{named}"]
    if secrets:
        following.insert(0, f"set -a; . {target.secrets_path}; set +a")
    record: dict[str, Any] = {
        "file": str(target.path),
        "written": not is_dry_run and (target.is_new or written.text != target.text),
        "secrets": secrets,
        "channels": written.channels,
        "models": written.models,
        "kept": written.kept,
        "unpriced": written.unpriced,
        "left": [{"what": one.what, "reason": one.reason} for one in plan.left],
        "next": following,
    }
    shown = {name: value for name, value in record.items() if name not in ("left", "next")}
    text = [sheet(shown)]
    if plan.left:
        text += ["", "not carried over:", table(record["left"], LEFT_COLUMNS)]
    return Result(record, "\n".join([*text, "", "next:", *following]))


def _dry_run(parser: Parser) -> Parser:
    parser.add_argument(
        "--dry-run", action="store_true", help="tell what would come over and what not"
    )
    return parser

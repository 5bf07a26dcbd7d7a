"""`gw import`: carry over another gateway's configuration; `--dry-run` only reports the result.

The sources and their conversion are in `gw/moving_in`. All input is read, and the result parsed,
before anything is written; a second import changes nothing.
"""

from __future__ import annotations

import asyncio
import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.store.session import Session
from actors.wallet.money import format_usd
from gw.admin import audit
from gw.admin.audit import Actor
from gw.cli.arguments import add_command, add_noun, label
from gw.cli.context import opened
from gw.cli.files import create_file, replace_file, write_secrets
from gw.cli.output import Result, sheet, table
from gw.config.load import load_text, read_text
from gw.config.path import DEFAULT_NAME, name_of_file
from gw.moving_in import writing
from gw.moving_in.booking import Booked, book_accounts
from gw.moving_in.litellm.configuration import read_litellm
from gw.moving_in.new_api.conversion import plan_of
from gw.moving_in.new_api.tables import read_tables, shown
from gw.moving_in.plan import Plan
from gw.price_list.reading import bundled

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers

LEFT_COLUMNS = ("what", "reason")
ACCOUNT_COLUMNS = ("id", "name", "balance_usd", "enabled", "new")
KEY_COLUMNS = ("account", "name", "id", "key")
NEW_API = "new-api"


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "import", "move in from another gateway")

    text = "models, channels, prices and aliases of a configuration of LiteLLM's proxy"
    litellm_parser = _dry_run(add_command(verbs, "litellm", text, litellm))
    litellm_parser.add_argument("file", metavar="FILE", type=Path, help="its config.yaml")

    text = "channels, models, prices of a database of new-api; accounts with balances, keys anew"
    new_api_parser = _dry_run(add_command(verbs, "new-api", text, new_api))
    new_api_parser.add_argument(
        "--database",
        metavar="URL",
        required=True,
        help="postgresql://… or sqlite:///PATH; it is only read",
    )
    new_api_parser.add_argument(
        "--source",
        metavar="NAME",
        default=NEW_API,
        type=label,
        help="tells accounts of several installations apart (default: %(default)s)",
    )


def litellm(options: Namespace) -> Result:
    plan = read_litellm(options.file, bundled())
    target = TargetFiles(options)
    written = target.write(plan, is_dry_run=options.dry_run)
    return _result(target, plan, written, is_dry_run=options.dry_run)


def new_api(options: Namespace) -> Result:
    tables = read_tables(options.database)
    origin = shown(options.database)
    plan = plan_of(tables, bundled(), source=options.source, origin=origin)
    target = TargetFiles(options)
    written = target.write(plan, is_dry_run=options.dry_run)
    booked = None if options.dry_run else asyncio.run(_booked(target, plan, written))
    return _result(target, plan, written, is_dry_run=options.dry_run, booked=booked)


async def _booked(target: TargetFiles, plan: Plan, written: writing.Written) -> list[Booked]:
    """Create the accounts in the database of the new configuration."""
    environ = {**plan.unset(), **os.environ, **written.secrets}
    config = load_text(written.text, environ, source=target.path, is_priced=False)
    planned = [one.with_models(config.registry) for one in plan.accounts]
    async with opened(config) as context:
        actor = Actor.of_this_process()

        async def noted(session: Session, booked: Booked) -> None:
            account = booked.account
            details = {
                "name": account.name,
                "credit_usd": format_usd(account.balance_nano_usd),
                "keys": [key.id for key in booked.keys],
            }
            await audit.note(
                session,
                actor,
                "account.import",
                account.id,
                account_id=account.id,
                details=details,
            )

        return await book_accounts(context.database, planned, secret=context.secret(), also=noted)


class TargetFiles:
    """The configuration that receives the import, and the file of variables beside it."""

    def __init__(self, options: Namespace) -> None:
        name, _ = name_of_file(getattr(options, "config", None), os.environ)
        self.path = Path.cwd() / name
        self.is_new = not self.path.exists()
        self.text = "" if self.is_new else read_text(self.path)
        self.secrets_path = self.path.with_suffix(".env")
        self.env_text = read_text(self.secrets_path) if self.secrets_path.exists() else ""
        self.secrets: Mapping[str, str] = writing.read_env_file(self.env_text)

    def write(self, plan: Plan, *, is_dry_run: bool) -> writing.Written:
        """Write the plan to both files. Raises ConfigFaults, CommandRefused."""
        written = writing.write_plan(
            plan, self.text, os.environ, source=self.path, secrets=self.secrets
        )
        if is_dry_run:
            return written
        if written.secrets != self.secrets:
            write_secrets(self.secrets_path, writing.env_file(self.env_text, written.secrets))
        if self.is_new:
            create_file(self.path, written.text)
        elif written.text != self.text:
            replace_file(self.path, written.text, before=self.text)
        return written


def _result(
    target: TargetFiles,
    plan: Plan,
    written: writing.Written,
    *,
    is_dry_run: bool,
    booked: Sequence[Booked] | None = None,
) -> Result:
    secrets = str(target.secrets_path) if written.secrets else None
    named = "" if target.path.name == DEFAULT_NAME else f" --config {target.path}"
    following = [f"gw check-config{named}", f"gw serve{named}"]
    if secrets:
        following.insert(0, f"set -a; . {target.secrets_path}; set +a")
    shown: dict[str, Any] = {
        "file": str(target.path),
        "written": not is_dry_run and (target.is_new or written.text != target.text),
        "secrets": secrets,
        "channels": written.channels,
        "models": written.models,
        "kept": written.kept,
        "unpriced": written.unpriced,
    }
    left = [{"what": one.what, "reason": one.reason} for one in plan.left]
    record = {**shown, "left": left, "next": following}
    text = [sheet(shown)]
    if plan.accounts:
        record["accounts"] = [_account(one) for one in _in_words(plan, booked)]
        text += ["", table(record["accounts"], ACCOUNT_COLUMNS)]
        keys = [key for one in record["accounts"] for key in one["keys"]]
        if booked is not None and keys:
            text += ["", "keys, not shown again unless revealed:", table(keys, KEY_COLUMNS)]
    if plan.left:
        text += ["", "not carried over:", table(record["left"], LEFT_COLUMNS)]
    return Result(record, "\n".join([*text, "", "next:", *following]))


def _in_words(plan: Plan, booked: Sequence[Booked] | None) -> Sequence[Booked]:
    """Return the accounts created or, in a dry run, those that would be."""
    return [Booked(one, is_new=True) for one in plan.accounts] if booked is None else booked


def _account(booked: Booked) -> dict[str, Any]:
    account = booked.account
    return {
        "id": account.id,
        "name": account.name,
        "balance_usd": format_usd(account.balance_nano_usd),
        "enabled": account.is_enabled,
        "new": booked.is_new,
        "keys": [
            {"account": account.id, "name": key.name, "id": key.id, "key": key.text}
            for key in booked.keys
        ],
        "key_names": [key.name for key in account.keys],
    }


def _dry_run(parser: Parser) -> Parser:
    parser.add_argument(
        "--dry-run", action="store_true", help="tell what would come over and what not"
    )
    return parser

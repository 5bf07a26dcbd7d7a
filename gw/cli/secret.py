"""`gw secret`: store keys again after a change of the secret (`ops/running.md`)."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from gw.admin import audit
from gw.cli.arguments import add_command, add_noun
from gw.cli.context import Context, with_database
from gw.cli.failures import CommandRefused
from gw.cli.output import Result, sheet
from gw.keys.rotation import Rotation, rotate_keys
from gw.keys.sealing import KeySealer
from gw.webhooks import table as webhooks
from metrics.logs import EventLog

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

_NO_PREVIOUS = "There is no `previous_secret`: set it to what `secret` was, in every gateway."
_NOW = "Remove `previous_secret` now, and restart each gateway."


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "secret", "change the secret that keys are stored under")
    text = "seal anew what was sealed under `previous_secret`: keys, webhooks; may be repeated"
    add_command(verbs, "rotate", text, with_database(rotate))


async def rotate(context: Context, options: Namespace) -> Result:
    secret = context.secret()
    if not secret.previous:
        raise CommandRefused(_NO_PREVIOUS, "no_previous_secret")
    keys = await rotate_keys(context.database, secret)  # each batch is committed separately
    resealed, current = await webhooks.reseal(context.database, KeySealer(secret))
    done = Rotation(rotated=keys.rotated + resealed, current=keys.current + current)
    async with context.change() as (session, actor):
        await audit.note(session, actor, "secret.rotate", "secret", details=asdict(done))
    EventLog("gw.cli").info("secret_rotated", rotated=done.rotated, current=done.current)
    return rotation_result(done)


def rotation_result(done: Rotation) -> Result:
    record = {"rotated": done.rotated, "current": done.current}
    return Result(record, f"{sheet(record)}\n\n{_NOW}")

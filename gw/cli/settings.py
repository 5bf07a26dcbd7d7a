"""The commands that change a noun: `set` and its like, `enable`, `disable`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from actors.store.session import Session
from gw.admin.audit import Actor
from gw.cli.arguments import Parser, Verb
from gw.cli.context import Context
from gw.cli.failures import UsageFault
from gw.cli.output import Result
from gw.nouns.noun import Changes, Noun

R = TypeVar("R")
Change = Callable[[Session, Actor, str, Changes], Awaitable[R]]
Until = Callable[[Context, R], Awaitable[None]]


def setting(
    noun: Noun[Any, R],
    change: Change[R],
    result: Callable[[Context, R], Result],
    with_id: Callable[[Parser], object],
    text: str,
    verb: str = "set",
    until: Until[R] | None = None,
) -> Verb:
    """Return the command that changes the settings that its options name.

    `until` waits for what must be over, once the change is committed and every gateway has it.
    """

    def check(options: Namespace) -> None:
        if not noun.changes_of_options(options, None, verb):
            raise UsageFault("nothing to set: name at least one setting")

    async def run(context: Context, options: Namespace) -> Result:
        changes = noun.changes_of_options(options, context.config.registry, verb)
        changed, shown = await _changed(context, change, options.id, changes, result)
        if until is not None:
            await until(context, changed)
        return shown

    return Verb(verb, text, run, [with_id, lambda parser: noun.add_settings(parser, verb)], check)


def switching(
    change: Change[R],
    result: Callable[[Context, R], Result],
    with_id: Callable[[Parser], object],
    *,
    enable: str,
    disable: str,
) -> list[Verb]:
    """Return the commands that enable and disable, with these texts."""

    def work(is_enabled: bool) -> Callable[[Context, Namespace], Awaitable[Result]]:
        async def run(context: Context, options: Namespace) -> Result:
            enabled = {"enabled": is_enabled}
            return (await _changed(context, change, options.id, enabled, result))[1]

        return run

    return [
        Verb("enable", enable, work(True), [with_id]),
        Verb("disable", disable, work(False), [with_id]),
    ]


async def _changed(
    context: Context,
    change: Change[R],
    object_id: str,
    changes: Changes,
    result: Callable[[Context, R], Result],
) -> tuple[R, Result]:
    async with context.change() as (session, actor):
        changed = await change(session, actor, object_id, changes)
    await context.in_force()
    return changed, result(context, changed)

"""What an operator has disabled is locked: its account's owner does not enable it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gw.admin.audit import Actor
from gw.nouns.noun import Changes


async def with_lock(
    actor: Actor, changes: Changes, is_locked: Callable[[], Awaitable[bool]], refusal: Exception
) -> Changes:
    """Return changes with the lock that an operator's switch sets or lifts.

    Raises `refusal` when an owner enables what is locked.
    """
    if "enabled" not in changes:
        return changes
    if actor.kind != "owner":
        return {**changes, "is_locked": not changes["enabled"]}
    if changes["enabled"] and await is_locked():
        raise refusal
    return changes

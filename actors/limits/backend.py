"""Whom the processes ask that share their limits: an interface, and Redis behind it.

The other one is `parent.py`. What either is sent are the commands of `commands.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from actors.limits.commands import EnterCommand, LimitCommand, RedisCommands, parse_status
from actors.limits.status import LimitStatus
from actors.store.redis import RedisLink, RedisUnavailable


class BackendUnavailable(Exception):
    """The backend does not reply, not in time, or with an error."""


class Backend(Protocol):
    """Executes batches of commands in their order. Every method raises BackendUnavailable."""

    name: str  # in log lines: "redis", "parent"
    leases_expire: bool  # unless they are said again and again

    async def connect(self) -> None:
        """Begin anew: everything is said again after it."""

    async def call(
        self, commands: Sequence[LimitCommand], *, timeout_factor: int = 1
    ) -> Sequence[LimitStatus | None]:
        """Say a batch; the replies are those of its `EnterCommand`s, None for other words.

        `timeout_factor` is by how much a large batch may take longer than an ordinary one.
        """

    async def close(self) -> None:
        """Let go."""


class RedisBackend:
    """Asks scripts in Redis, for processes of one host or many."""

    name = "redis"
    leases_expire = True

    def __init__(self, link: RedisLink, redis_commands: RedisCommands) -> None:
        self._link = link
        self._commands = redis_commands

    def __repr__(self) -> str:
        return f"<RedisBackend {self._link!r}>"

    async def connect(self) -> None:
        """Open a new connection."""
        try:
            await self._link.connect()
        except RedisUnavailable as error:
            raise BackendUnavailable(str(error)) from error

    async def call(
        self, commands: Sequence[LimitCommand], *, timeout_factor: int = 1
    ) -> Sequence[LimitStatus | None]:
        """Say a batch in one round trip."""
        calls = [self._commands.call(command) for command in commands]
        try:
            replies = await self._link.call(calls, timeout_factor=timeout_factor)
        except RedisUnavailable as error:
            raise BackendUnavailable(str(error)) from error
        return [
            parse_status(reply) if isinstance(command, EnterCommand) else None
            for command, reply in zip(commands, replies, strict=True)
        ]

    async def close(self) -> None:
        """Let go of the connection."""
        await self._link.close()

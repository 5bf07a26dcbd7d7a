"""The limits that processes share in Redis: calls of the Lua scripts in this folder.

Keys are `gw:limits:NAME:window` and `gw:limits:NAME:leases`. Slots of several processes are in
one set, so a member is the process's id and the slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from actors.limits import backend
from actors.limits.status import WINDOW_SECONDS, Dimension, LimitStatus
from actors.store.redis import RedisLink, RedisUnavailable, ScriptCall

# How long an unrenewed permit counts: then the slots of a dead process are free.
PERMIT_SECONDS = 10.0
MICROSECONDS = 1_000_000

_DIMENSIONS: tuple[Dimension | None, ...] = (None, "rpm", "concurrency")


def scripts() -> Mapping[str, str]:
    """Return the scripts by name."""
    window, *own = (
        files("actors.limits").joinpath(f"{name}.lua").read_text(encoding="utf-8")
        for name in ("window", "enter", "keep", "release")
    )
    enter, keep, release = own
    return MappingProxyType({"enter": window + enter, "keep": window + keep, "release": release})


class RedisCommands:
    """Encodes commands as script calls. `now_us` replaces the server's time in tests."""

    def __init__(self, process_id: str, now_us: Callable[[], int] | None = None) -> None:
        self._process_id = process_id
        self._now_us = now_us

    def call(self, command: backend.LimitCommand) -> ScriptCall:
        """Return the script call of `command`."""
        stem = f"gw:limits:{command.name}"
        keys = (f"{stem}:window", f"{stem}:leases")
        length = round(PERMIT_SECONDS * MICROSECONDS)
        now = "" if self._now_us is None else self._now_us()
        match command:
            case backend.EnterCommand():
                rpm = "" if command.rpm is None else command.rpm
                concurrency = "" if command.concurrency is None else command.concurrency
                return ScriptCall(
                    "enter", keys, (rpm, concurrency, self._member(command.slot), length, now)
                )
            case backend.RenewCommand():
                permits = map(self._member, command.permits)
                window: list[str | int] = []
                for slot, age_seconds in command.window:
                    window += self._member(slot), round(age_seconds * MICROSECONDS)
                return ScriptCall(
                    "keep", keys, (length, now, len(command.permits), *permits, *window)
                )
            case backend.ReleaseCommand():
                member = self._member(command.slot)
                never_admitted = (member,) if command.from_window else ()
                return ScriptCall("release", keys, (1, member, *never_admitted))

    def _member(self, slot: int) -> str:
        return f"{self._process_id}:{slot}"


def parse_status(reply: Any) -> LimitStatus:
    """Parse the reply of `enter.lua`."""
    refused, requests, reset_us, retry_us, in_flight = reply
    return LimitStatus(
        refused=_DIMENSIONS[refused],
        requests=requests,
        # The server's clock may have been set back.
        reset_seconds=min(WINDOW_SECONDS, reset_us / MICROSECONDS),
        retry_seconds=min(WINDOW_SECONDS, retry_us / MICROSECONDS),
        in_flight=in_flight,
    )


class RedisBackend:
    """Calls scripts in Redis, for processes of one host or many."""

    name = "redis"
    permits_expire = True

    def __init__(self, link: RedisLink, redis_commands: RedisCommands) -> None:
        self._link = link
        self._commands = redis_commands

    async def connect(self) -> None:
        """Open a new connection."""
        try:
            await self._link.connect()
        except RedisUnavailable as error:
            raise backend.BackendUnavailable(str(error)) from error

    async def call(
        self, commands: Sequence[backend.LimitCommand], *, timeout_factor: int = 1
    ) -> Sequence[LimitStatus | None]:
        """Send a batch in one round trip."""
        calls = [self._commands.call(command) for command in commands]
        try:
            replies = await self._link.call(calls, timeout_factor=timeout_factor)
        except RedisUnavailable as error:
            raise backend.BackendUnavailable(str(error)) from error
        return [
            parse_status(reply) if isinstance(command, backend.EnterCommand) else None
            for command, reply in zip(commands, replies, strict=True)
        ]

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()

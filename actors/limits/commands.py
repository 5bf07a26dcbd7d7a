"""What a process says to Redis about limits, as the calls of the scripts beside this file.

Keys are `gw:limits:NAME:window` and `gw:limits:NAME:leases`. Slots of several processes meet in
one set, so a member is the process's id with the slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from actors.limits.status import WINDOW_SECONDS, Dimension, LimitStatus
from actors.store.redis import ScriptCall

# How long a lease counts that is not renewed: what a process that died held is free by then.
LEASE_SECONDS = 10.0
MICROSECONDS = 1_000_000

_DIMENSIONS: tuple[Dimension | None, ...] = (None, "rpm", "concurrency")


def scripts() -> Mapping[str, str]:
    """The scripts by their names."""
    window, *own = (
        files("actors.limits").joinpath(f"{name}.lua").read_text(encoding="utf-8")
        for name in ("window", "enter", "keep", "release")
    )
    enter, keep, release = own
    return MappingProxyType({"enter": window + enter, "keep": window + keep, "release": release})


@dataclass(frozen=True, slots=True, eq=False)
class EnterCommand:
    """May this request in? The reply is a LimitStatus, or None when the limits cannot be judged."""

    name: str
    slot: int
    rpm: int | None
    concurrency: int | None
    reply: asyncio.Future[LimitStatus | None]


@dataclass(frozen=True, slots=True, eq=False)
class RenewCommand:
    """Renew the leases in flight here; `window` are slots admitted so many seconds ago."""

    name: str
    leases: tuple[int, ...] = ()
    window: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseCommand:
    """End a lease; `from_window` takes its admission back, too."""

    name: str
    slot: int
    from_window: bool = False


LimitCommand = EnterCommand | RenewCommand | ReleaseCommand


class RedisCommands:
    """Turns commands into calls of the scripts. `now_us` replaces the server's time, for tests."""

    def __init__(self, process_id: str, now_us: Callable[[], int] | None = None) -> None:
        self._process_id = process_id
        self._now_us = now_us

    def call(self, command: LimitCommand) -> ScriptCall:
        """The call that says `command`."""
        stem = f"gw:limits:{command.name}"
        keys = (f"{stem}:window", f"{stem}:leases")
        lease = round(LEASE_SECONDS * MICROSECONDS)
        now = "" if self._now_us is None else self._now_us()
        match command:
            case EnterCommand():
                rpm = "" if command.rpm is None else command.rpm
                concurrency = "" if command.concurrency is None else command.concurrency
                return ScriptCall(
                    "enter", keys, (rpm, concurrency, self._member(command.slot), lease, now)
                )
            case RenewCommand():
                leases = map(self._member, command.leases)
                window: list[str | int] = []
                for slot, age_seconds in command.window:
                    window += self._member(slot), round(age_seconds * MICROSECONDS)
                return ScriptCall("keep", keys, (lease, now, len(command.leases), *leases, *window))
            case ReleaseCommand():
                member = self._member(command.slot)
                never_admitted = (member,) if command.from_window else ()
                return ScriptCall("release", keys, (1, member, *never_admitted))

    def _member(self, slot: int) -> str:
        return f"{self._process_id}:{slot}"


def parse_status(reply: Any) -> LimitStatus:
    """Read the reply of `enter.lua`."""
    refused, requests, reset_us, retry_us, in_flight = reply
    return LimitStatus(
        refused=_DIMENSIONS[refused],
        requests=requests,
        # The server's clock may have been put back.
        reset_seconds=min(WINDOW_SECONDS, reset_us / MICROSECONDS),
        retry_seconds=min(WINDOW_SECONDS, retry_us / MICROSECONDS),
        in_flight=in_flight,
    )

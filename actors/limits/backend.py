"""The backend of shared limits: the commands that a process sends to it, and its interface.

It is Redis (`redis_backend.py`), or the parent process (`actors/parent/backend.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from actors.limits.status import LimitStatus


@dataclass(frozen=True, slots=True, eq=False)
class EnterCommand:
    """Admit a request? The reply is a LimitStatus, or None if the limits cannot be checked."""

    name: str
    slot: int
    rpm: int | None
    concurrency: int | None
    reply: asyncio.Future[LimitStatus | None]


@dataclass(frozen=True, slots=True, eq=False)
class RenewCommand:
    """Renew the permits in flight here; `window` has slots admitted so many seconds ago."""

    name: str
    permits: tuple[int, ...] = ()
    window: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseCommand:
    """End a permit; `from_window` also withdraws its admission."""

    name: str
    slot: int
    from_window: bool = False


LimitCommand = EnterCommand | RenewCommand | ReleaseCommand


class BackendUnavailable(Exception):
    """The backend does not reply, or too late, or with an error."""


class Backend(Protocol):
    """Executes batches of commands in their order. Every method raises BackendUnavailable."""

    name: str  # in log lines: "redis", "parent"
    permits_expire: bool  # unless they are renewed

    async def connect(self) -> None:
        """Connect; afterwards everything is sent again."""

    async def call(
        self, commands: Sequence[LimitCommand], *, timeout_factor: int = 1
    ) -> Sequence[LimitStatus | None]:
        """Send a batch; return the replies of its `EnterCommand`s, None for other commands.

        `timeout_factor` multiplies the timeout for a large batch.
        """

    async def close(self) -> None:
        """Disconnect."""

"""The requests in flight in this process, and how they are brought to an end on SIGTERM.

Draining is: stop accepting (the server's business), let what is in flight finish for so many
seconds, then cut the rest and wait until each has settled. The handler enters and leaves by itself
(`base.py`); who calls `drain` is `gw/serve.py`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from actors.clock import Clock

# A call that was cut still has its settlement to send on its way, which takes no I/O of its own.
CUT_SECONDS = 5.0


class Cuttable(Protocol):
    """A request that can be told to end now."""

    def cut(self) -> None:
        """End at once: what was delivered is settled, the client sees its answer end."""


class InFlight:
    """Every request between its headers and the end of its answer."""

    def __init__(self) -> None:
        self._requests: set[Cuttable] = set()
        self.entered = 0  # so many so far
        self._is_draining = False
        self._idle: asyncio.Event | None = None

    def __repr__(self) -> str:
        state = "draining" if self._is_draining else "open"
        return f"<InFlight {len(self._requests)} requests {state}>"

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def is_draining(self) -> bool:
        """True from the first moment of a drain; for `Services.draining` and `/readyz`."""
        return self._is_draining

    def enter(self, request: Cuttable) -> None:
        """A request begins."""
        self.entered += 1
        self._requests.add(request)

    def leave(self, request: Cuttable) -> None:
        """A request has ended. Leaving twice is harmless."""
        self._requests.discard(request)
        if self._idle is not None and not self._requests:
            self._idle.set()

    def begin_drain(self) -> None:
        """Say that this process is about to end: answers ask their clients to reconnect."""
        self._is_draining = True

    async def drain(self, *, seconds: float, clock: Clock) -> int:
        """Wait until nothing is in flight, at most `seconds`; cut the rest and say how many."""
        self.begin_drain()
        if await self._emptied(seconds, clock):
            return 0
        late = list(self._requests)
        for request in late:
            request.cut()
        await self._emptied(CUT_SECONDS, clock)
        return len(late)

    async def _emptied(self, seconds: float, clock: Clock) -> bool:
        if not self._requests:
            return True
        self._idle = asyncio.Event()
        idle = asyncio.ensure_future(self._idle.wait())
        late = asyncio.ensure_future(clock.sleep(seconds))
        try:
            await asyncio.wait((idle, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
            late.cancel()
            self._idle = None
        return not self._requests

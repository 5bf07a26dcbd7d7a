"""The requests in flight, and their drain on SIGTERM, run by `gw/runtime/shutdown.py`:

1. every response closes its connection;
2. the listener closes, and serves clients once more that could not know of the drain;
3. new requests are refused, so that the number in flight can only fall;
4. requests in flight may finish for `drain_seconds`; then the rest is cut and settles.

A request enters and leaves by itself (`request.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from actors.clock import Clock

# Time for calls that were cut to send their settlements, which takes no I/O of their own.
CUT_SECONDS = 5.0


class Cuttable(Protocol):
    """A request that can be ended now."""

    def cut(self) -> None:
        """End at once; delivered content is settled, and the client sees its response end."""


class RequestsInFlight:
    """Every request between its headers and the end of its response."""

    def __init__(self) -> None:
        self._requests: dict[Cuttable, None] = {}  # oldest first
        self.entered = 0  # total
        self.closers: set[Callable[[], None]] = set()  # of open connections that are not in flight
        self.is_draining = False  # responses close their connections, `/readyz` answers 503
        self.is_refusing = False  # new requests are answered with 503
        self._idle: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        state = "refusing" if self.is_refusing else "draining" if self.is_draining else "open"
        return f"<RequestsInFlight {len(self._requests)} requests {state}>"

    def __len__(self) -> int:
        return len(self._requests)

    def enter(self, request: Cuttable) -> None:
        """A request begins."""
        self.entered += 1
        self._requests[request] = None

    def leave(self, request: Cuttable) -> None:
        """A request has ended. Leaving twice is harmless."""
        self._requests.pop(request, None)
        if self._idle is not None and not self._requests and not self._idle.done():
            self._idle.set_result(None)

    def begin_drain(self) -> None:
        """Begin the drain: from now on responses close their connections."""
        self.is_draining = True
        for close in list(self.closers):
            close()

    def refuse_new(self) -> None:
        """Refuse new requests from now on."""
        self.begin_drain()
        self.is_refusing = True

    async def drain(self, *, seconds: float, clock: Clock) -> int:
        """Wait until nothing is in flight, at most `seconds`; cut the rest and return how many."""
        self.begin_drain()
        if await self._emptied(seconds, clock):
            return 0
        late = list(self._requests)
        for request in late:
            request.cut()
        await self._emptied(CUT_SECONDS, clock)
        return len(late)

    async def _emptied(self, seconds: float, clock: Clock) -> bool:
        """Wait until no request is in flight; False after `seconds`."""
        loop = asyncio.get_running_loop()
        late = asyncio.ensure_future(clock.sleep(seconds))
        try:
            while self._requests and not late.done():
                self._idle = loop.create_future()
                await asyncio.wait((self._idle, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            late.cancel()
            self._idle = None
        return not self._requests

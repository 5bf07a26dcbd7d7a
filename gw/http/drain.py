"""The requests in flight in this process, and how they are brought to an end on SIGTERM.

Draining is: every response ends its connection; listen no more, and serve once more whoever could
not know (both the listener's business); refuse what is asked from then on, so that the number of
those in flight can only fall; let them finish for so many seconds, then cut the rest and wait until
each has settled. A request enters and leaves by itself (`request.py`); who calls is `gw/serve.py`.
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
        """End at once: what was delivered is settled, the client sees its response end."""


class RequestsInFlight:
    """Every request between its headers and the end of its response."""

    def __init__(self) -> None:
        self._requests: dict[Cuttable, None] = {}  # the oldest first
        self.entered = 0  # so many so far
        self._is_draining = False
        self._is_refusing = False
        self._idle: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        state = "refusing" if self._is_refusing else "draining" if self._is_draining else "open"
        return f"<RequestsInFlight {len(self._requests)} requests {state}>"

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def is_draining(self) -> bool:
        """True from the first moment of a drain; responses close, `/readyz` says so."""
        return self._is_draining

    @property
    def is_refusing(self) -> bool:
        """True once nothing new may begin: a request that comes now is answered with 503."""
        return self._is_refusing

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
        """Say that this process is about to end: responses ask their clients to reconnect."""
        self._is_draining = True

    def refuse_new(self) -> None:
        """Refuse calls from now on: once none is in flight, none will be."""
        self.begin_drain()
        self._is_refusing = True

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
        """Wait until no call is in flight, though calls come and go; False after `seconds`."""
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

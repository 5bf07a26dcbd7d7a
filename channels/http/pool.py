"""The connections to one origin: those that wait for a request, and all there are.

Without a limit of its own: the channels' slots are the limit. Makes no connection by itself
(`dialer.py`) and reads none (`connection.py`).
"""

from __future__ import annotations

import asyncio
import select

from channels.deadlines import Deadlines
from channels.http.connection import UpstreamConnection

# Below the 60-75 s after which servers and balancers commonly close an idle connection.
IDLE_SECONDS = 30.0


class OriginPool:
    """Keeps connections alive for the next request; the one used last goes first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._all: set[UpstreamConnection] = set()
        # One that is idle for too long is closed.
        self._idle = Deadlines(IDLE_SECONDS, UpstreamConnection.abort)
        self._poll = select.poll()
        self._emptied: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<OriginPool {len(self._all)} connections, {len(self._idle)} idle>"

    def new_connection(self) -> UpstreamConnection:
        """The protocol of a connection that is being made."""
        return UpstreamConnection(self)

    def take(self) -> UpstreamConnection | None:
        """An idle connection, if there is one that still seems good.

        One on which anything has come while it was idle is not: be it the end of the stream, or an
        response to no request, which the next request would get for its own.
        """
        while (connection := self._idle.end_latest()) is not None:
            if connection.is_usable:
                if not self._has_unread(connection):
                    return connection
                connection.abort()
        return None

    async def close(self) -> None:
        """Break every connection, idle or not; wait until they are gone."""
        self._idle.close()
        for connection in list(self._all):
            connection.break_off()
        if self._all:
            self._emptied = self._loop.create_future()
            await self._emptied

    # --- From the connections: the pool is their ConnectionOwner ---

    def on_open(self, connection: UpstreamConnection) -> None:
        """See ConnectionOwner."""
        self._all.add(connection)

    def on_idle(self, connection: UpstreamConnection) -> None:
        """See ConnectionOwner."""
        self._idle.begin(connection)

    def on_closed(self, connection: UpstreamConnection) -> None:
        """See ConnectionOwner."""
        self._idle.end(connection)
        self._all.discard(connection)
        if not self._all and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _has_unread(self, connection: UpstreamConnection) -> bool:
        """Whether the system has something of it that the loop has not read yet."""
        poll, fileno = self._poll, connection.fileno()
        poll.register(fileno, select.POLLIN)
        has_unread = bool(poll.poll(0))
        poll.unregister(fileno)
        return has_unread

"""The connections to one origin, idle or in use.

It has no limit: the channels' slots are the limit. Connections are made by `dialer.py`, and read
by `connection.py`.
"""

from __future__ import annotations

import asyncio

from channels.deadlines import Deadlines
from channels.http.connection import UpstreamConnection

# Less than the 60-75 s after which servers and balancers commonly close an idle connection.
IDLE_SECONDS = 30.0


class TurnWrites:
    """Writes the small requests of one turn of the loop together, at its end.

    A write wakes up a waiting peer of the same host, which costs as much again; the next ones,
    right after it, find it awake.
    """

    __slots__ = ("_connections",)

    def __init__(self) -> None:
        self._connections: list[UpstreamConnection] = []  # each once

    def add(self, connection: UpstreamConnection) -> None:
        """Let a connection write its request at the end of the turn."""
        if not self._connections:
            asyncio.get_running_loop().call_soon(self._write)
        self._connections.append(connection)

    def _write(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.write_joined()


class OriginPool:
    """Keeps connections alive for the next request; the one used last is reused first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, writes: TurnWrites) -> None:
        self._loop = loop
        self._writes = writes
        self._all: set[UpstreamConnection] = set()
        # Connections idle for too long are closed.
        self._idle = Deadlines(IDLE_SECONDS, UpstreamConnection.abort)
        self._emptied: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<OriginPool {len(self._all)} connections, {len(self._idle)} idle>"

    def new_connection(self) -> UpstreamConnection:
        """Return the protocol of a connection that is being opened."""
        return UpstreamConnection(self)

    def take(self) -> UpstreamConnection | None:
        """Return an idle connection that is still usable, if there is one."""
        while (connection := self._idle.end_latest()) is not None:
            if connection.may_be_reused():
                return connection
        return None

    def __len__(self) -> int:
        """The number of connections."""
        return len(self._all)

    @property
    def idle_count(self) -> int:
        """The number of idle connections."""
        return len(self._idle)

    @property
    def idle_until(self) -> float:
        """When the longest idle connection will be closed, in loop time."""
        return self._idle.earliest

    def close_idlest(self) -> bool:
        """Close the longest idle connection; False when none is idle."""
        connection = self._idle.end_earliest()
        if connection is None:
            return False
        connection.abort()
        return True

    async def close(self) -> None:
        """Abort every connection, idle or not, and wait until all are closed."""
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

    def on_joined(self, connection: UpstreamConnection) -> None:
        """See ConnectionOwner."""
        self._writes.add(connection)

    def on_idle(self, connection: UpstreamConnection) -> None:
        """See ConnectionOwner."""
        self._idle.begin(connection)

    def on_closed(self, connection: UpstreamConnection) -> None:
        """See ConnectionOwner."""
        self._idle.end(connection)
        self._all.discard(connection)
        if not self._all and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

"""What the connections of one listening address share."""

from __future__ import annotations

import asyncio
import resource
from asyncio import Future

from gw.http.application import HttpApplication
from gw.http.flow_control import LINGER_SECONDS, FlowControl
from gw.http.head import FieldNames

# A kept connection that stays silent for so long is closed. Longer than common load balancers
# keep theirs, so that they close first.
IDLE_SECONDS = 75.0
# A client may send its next request while it has not been told yet that the process is about to
# end: until so long after its last response, or after the drain's beginning.
LAST_CALL_SECONDS = 1.0
# Of the files that this process may open, for what is neither a client nor a channel's response to
# one: the database, the metrics' readers, …
FILES_ELSEWHERE = 64
# So much is read at a time. What it costs to parse is how long everybody else waits.
READ_BYTES_MAX = 64 * 1024


class ServerState:
    """The application, the connections and what they need not have each of their own."""

    __slots__ = (
        "_emptied",
        "application",
        "buffer",
        "connections",
        "connections_max",
        "is_draining",
        "loop",
        "names",
        "ready",
    )

    def __init__(self, application: HttpApplication, connections_max: int | None) -> None:
        self.loop = asyncio.get_running_loop()
        self.application = application
        self.names = FieldNames()
        self.buffer = memoryview(bytearray(READ_BYTES_MAX))  # what every connection reads into
        self.ready: Future[None] = self.loop.create_future()  # done: for callers that need not wait
        self.ready.set_result(None)
        self.is_draining = False  # who is silent is kept for a moment only
        self.connections: set[FlowControl] = set()
        self.connections_max = connections_max or connections_bound()
        self._emptied: Future[None] | None = None

    @property
    def idle_seconds(self) -> float:
        """How long a connection is kept on which nothing comes."""
        return LAST_CALL_SECONDS if self.is_draining else IDLE_SECONDS

    @property
    def farewell_seconds(self) -> float:
        """How long a client that said nothing may take to leave."""
        return LAST_CALL_SECONDS if self.is_draining else LINGER_SECONDS

    def admits(self, connection: FlowControl) -> bool:
        """Note that a connection was made; False when there are too many."""
        self.connections.add(connection)
        return len(self.connections) <= self.connections_max

    def left(self, connection: FlowControl) -> None:
        """Note that a connection is gone."""
        self.connections.discard(connection)
        if self._emptied is not None and not self.connections and not self._emptied.done():
            self._emptied.set_result(None)

    async def none_left(self, seconds: float) -> None:
        """Wait until no client is connected, at most so long."""
        if self.connections:
            self._emptied = self.loop.create_future()
            await asyncio.wait((self._emptied,), timeout=seconds)
            self._emptied = None


def connections_bound() -> int:
    """How many clients the limit on open files lets this process serve, one channel's each."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return 1_000_000
    return max(16, (files - FILES_ELSEWHERE) // 2)

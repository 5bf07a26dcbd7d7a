"""The public listening address on httptools."""

from __future__ import annotations

import asyncio
import resource
import ssl
from asyncio import Future
from typing import TYPE_CHECKING

from gw.config.config import Address
from gw.web.errors import GatewayError
from gw.web.front.connection import HEAD_SECONDS, FrontConnection
from gw.web.front.head import FieldNames
from gw.web.front.pace import LINGER_SECONDS
from gw.web.front.request import FrontRequest
from gw.web.listener import BACKLOG, bind

if TYPE_CHECKING:
    from gw.web.application import GatewayApplication

# Of the files that this process may open, for what is neither a client nor a channel's answer to
# one: the database, the metrics' readers, …
FILES_ELSEWHERE = 64
# What is left at the end may take so long to send what was written to it.
CLOSE_SECONDS = 2.0


class FrontListener:
    """The application on an address; port 0 takes any free port, `url` says which."""

    def __init__(
        self,
        application: GatewayApplication,
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        shares_port: bool = False,
        connections_max: int | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.application = application
        self.names = FieldNames()
        self.ready: Future[None] = loop.create_future()  # done: for whoever need not wait
        self.ready.set_result(None)
        self._loop = loop
        self._connections_max = connections_max or connections_bound()
        self._connections: set[FrontConnection] = set()
        self._emptied: Future[None] | None = None
        self._tls = tls
        self.scheme = "http" if tls is None else "https"
        self._sockets, self.url = bind(address, scheme=self.scheme, shares_port=shares_port)
        self._servers: list[asyncio.Server] = []

    def __repr__(self) -> str:
        return f"<FrontListener {self.url} {len(self._connections)} connections>"

    async def start(self) -> None:
        """Accept connections."""
        for sock in self._sockets:
            self._servers.append(
                await self._loop.create_server(
                    lambda: FrontConnection(self, self._loop),
                    sock=sock,
                    backlog=BACKLOG,
                    ssl=self._tls,
                    # A handshake is bounded like a head, a farewell like what comes before it.
                    ssl_handshake_timeout=HEAD_SECONDS if self._tls is not None else None,
                    ssl_shutdown_timeout=LINGER_SECONDS if self._tls is not None else None,
                )
            )

    def stop_accepting(self) -> None:
        """Take no more connections. A second call does nothing."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def close(self) -> None:
        """Close every connection that is left, once what was written to it is out."""
        self.stop_accepting()
        if not self._connections:
            return
        self._emptied = self._loop.create_future()
        for connection in list(self._connections):
            connection.stop()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._emptied
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()

    # --- From connections ---

    def admits(self, connection: FrontConnection) -> bool:
        """A connection was made; False when there are too many."""
        self._connections.add(connection)
        return len(self._connections) <= self._connections_max

    def left(self, connection: FrontConnection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)
        if self._emptied is not None and not self._connections and not self._emptied.done():
            self._emptied.set_result(None)

    def refuse(self, request: FrontRequest, fault: GatewayError) -> None:
        """Answer a request that never reaches its handler."""
        self.application.refuse(request, fault, request.start_line.path)


def connections_bound() -> int:
    """How many clients the limit on open files lets this process serve, one channel's each."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return 1_000_000
    return max(16, (files - FILES_ELSEWHERE) // 2)

"""The public listening address on httptools."""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from asyncio import Future
from typing import TYPE_CHECKING, Any

from gw.config.config import Address
from gw.errors.table import GatewayError
from gw.http.connection import HEAD_SECONDS, READ_BYTES_MAX, Connection
from gw.http.flow_control import LINGER_SECONDS
from gw.http.head import FieldNames
from gw.http.listener import BACKLOG, bind
from gw.http.request import FrontRequest
from gw.http.sockets import stop_listening
from metrics.logs import EventLog

if TYPE_CHECKING:
    from gw.http.application import GatewayApplication

# Of the files that this process may open, for what is neither a client nor a channel's answer to
# one: the database, the metrics' readers, …
FILES_ELSEWHERE = 64
# What is left at the end may take so long to send what was written to it.
CLOSE_SECONDS = 2.0


class Server:
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
        self.buffer = memoryview(bytearray(READ_BYTES_MAX))  # what every connection reads into
        self.ready: Future[None] = loop.create_future()  # done: for whoever need not wait
        self.ready.set_result(None)
        self.is_draining = False  # who is silent is kept for a moment only
        self._loop = loop
        self._connections_max = connections_max or connections_bound()
        self._connections: set[Connection] = set()
        self._emptied: Future[None] | None = None
        # A handshake is bounded like a head, a farewell like what comes before it.
        self._tls_options: dict[str, Any] = (
            {}
            if tls is None
            else {
                "ssl": tls,
                "ssl_handshake_timeout": HEAD_SECONDS,
                "ssl_shutdown_timeout": LINGER_SECONDS,
            }
        )
        self.scheme = "http" if tls is None else "https"
        self._sockets, self.url = bind(address, scheme=self.scheme, shares_port=shares_port)
        self._servers: list[asyncio.Server] = []
        self._handshakes: list[asyncio.Task[None]] = []  # of those that nobody had accepted
        self._log = EventLog("gw.web")

    def __repr__(self) -> str:
        return f"<Server {self.url} {len(self._connections)} connections>"

    async def start(self) -> None:
        """Accept connections."""
        for sock in self._sockets:
            self._servers.append(
                await self._loop.create_server(
                    lambda: Connection(self, self._loop),
                    sock=sock,
                    backlog=BACKLOG,
                    **self._tls_options,
                )
            )

    async def stop_accepting(self) -> None:
        """Take no more connections but those that the kernel has taken already.

        From now on a connection is kept only as long as a client can take it for a kept one.
        """
        self.is_draining = True
        for connection in list(self._connections):
            connection.drain()
        sockets, self._sockets = self._sockets, []
        waiting = await stop_listening(sockets, self._stop_servers)
        self._handshakes = [asyncio.create_task(self._adopt(one)) for one in waiting]
        if not self._tls_options:  # else they take as long as their clients like
            await asyncio.gather(*self._handshakes)

    async def _adopt(self, waiting: socket.socket) -> None:
        """Serve a connection that the loop's own server has not accepted."""
        try:
            await self._loop.connect_accepted_socket(
                lambda: Connection(self, self._loop), waiting, **self._tls_options
            )
        except OSError as error:  # it has left, or its handshake failed
            self._log.debug("connection_not_made", error=repr(error))

    async def last_calls(self, seconds: float) -> None:
        """Wait so long, or until nobody is connected."""
        if self._tls_options:  # who is amid a handshake is not yet among the connections
            await asyncio.sleep(seconds)
        else:
            await self._none_left(seconds)

    def _stop_servers(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def close(self) -> None:
        """Close every connection that is left, once what was written to it is out."""
        self._stop_servers()
        for handshake in self._handshakes:
            handshake.cancel()
        for connection in list(self._connections):
            connection.stop()
        await self._none_left(CLOSE_SECONDS)
        for connection in list(self._connections):
            connection.abort()

    async def _none_left(self, seconds: float) -> None:
        """Wait until nobody is connected, at most so long."""
        if self._connections:
            self._emptied = self._loop.create_future()
            await asyncio.wait((self._emptied,), timeout=seconds)
            self._emptied = None

    # --- From connections ---

    def admits(self, connection: Connection) -> bool:
        """A connection was made; False when there are too many."""
        self._connections.add(connection)
        return len(self._connections) <= self._connections_max

    def left(self, connection: Connection) -> None:
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

"""The public listening address on httptools."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Any

from gw.config.config import ListenAddress
from gw.http.application import HttpApplication
from gw.http.connection import HEAD_SECONDS, Connection
from gw.http.flow_control import LINGER_SECONDS
from gw.http.sockets import BACKLOG, bind, stop_listening
from gw.http.state import LAST_CALL_SECONDS, ServerState
from metrics.logs import EventLog

# What is left at the end may take so long to send what was written to it.
CLOSE_SECONDS = 2.0


class Server:
    """The application on an address; port 0 takes any free port, `url` says which."""

    def __init__(
        self,
        application: HttpApplication,
        address: ListenAddress,
        *,
        tls: ssl.SSLContext | None = None,
        shares_port: bool = False,
        connections_max: int | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._state = ServerState(application, connections_max)
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
        scheme = "http" if tls is None else "https"
        self._sockets, self.url = bind(address, scheme=scheme, shares_port=shares_port)
        self._servers: list[asyncio.Server] = []
        self._handshakes: list[asyncio.Task[None]] = []  # of those that were not accepted
        self._log = EventLog("gw.web")

    def __repr__(self) -> str:
        return f"<Server {self.url} {len(self._state.connections)} connections>"

    async def start(self) -> None:
        """Accept connections."""
        for sock in self._sockets:
            self._servers.append(
                await self._loop.create_server(
                    lambda: Connection(self._state),
                    sock=sock,
                    backlog=BACKLOG,
                    **self._tls_options,
                )
            )

    async def stop_accepting(self) -> None:
        """Take no more connections but those that the kernel has taken already.

        From now on a connection is kept only as long as a client can take it for a kept one.
        """
        self._state.is_draining = True
        for connection in list(self._state.connections):
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
                lambda: Connection(self._state), waiting, **self._tls_options
            )
        except OSError as error:  # it has left, or its handshake failed
            self._log.debug("connection_not_made", error=repr(error))

    async def last_calls(self, seconds: float) -> None:
        """Wait so long, or until no client is connected."""
        if self._tls_options:  # who is amid a handshake is not yet among the connections
            handshaking = min(LAST_CALL_SECONDS, seconds)
            await asyncio.sleep(handshaking)
            seconds -= handshaking
        await self._state.none_left(seconds)

    def _stop_servers(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def close(self) -> None:
        """Close every connection that is left, once what was written to it is out."""
        self._stop_servers()
        for handshake in self._handshakes:
            handshake.cancel()
        for connection in list(self._state.connections):
            connection.stop()
        await self._state.none_left(CLOSE_SECONDS)
        for connection in list(self._state.connections):
            connection.abort()

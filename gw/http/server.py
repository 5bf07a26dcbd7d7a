"""The public listening address on httptools."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from functools import partial
from typing import Any

from channels.open_files import OpenFiles
from gw.config.addresses import ListenAddress
from gw.http.acceptor import Acceptor
from gw.http.application import HttpApplication
from gw.http.connection import (
    DRAIN_GRACE_SECONDS,
    HEAD_SECONDS,
    LINGER_SECONDS,
    Connection,
    ServerState,
)
from gw.http.listening_sockets import BACKLOG, bind, stop_listening
from metrics.logs import EventLog

# How long a closing connection may take to send its written data.
CLOSE_SECONDS = 2.0
# One TLS handshake may be under way for this many clients that may be served.
SERVED_PER_HANDSHAKE = 4


class Server:
    """The application on an address; port 0 is any free port, which `url` contains."""

    def __init__(
        self,
        application: HttpApplication,
        address: ListenAddress,
        *,
        files: OpenFiles,
        tls: ssl.SSLContext | None = None,
        shares_port: bool = False,
        connections_max: int | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._files = files
        self._state = ServerState(application, connections_max, files)
        # A handshake has the timeout of a head, the end of TLS that of a close.
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
        self._sockets, self.url = bind(address, "listen", scheme=scheme, shares_port=shares_port)
        self._servers: list[asyncio.Server] = []
        self._acceptor: Acceptor | None = None  # with TLS, instead of asyncio's servers
        self._handshakes: dict[asyncio.Task[None], None] = {}  # under way, oldest first
        self._log = EventLog("gw.http.server")
        if tls is not None:
            under_way = self._handshakes.__len__
            files.add("handshakes", under_way, self._give_up_handshake, idle=under_way)
        files.metrics.watch_connections(self._counts)

    def __repr__(self) -> str:
        return f"<Server {self.url} {len(self._state.connections)} connections>"

    @property
    def is_full(self) -> bool:
        """Whether a new client would be refused."""
        return self._state.is_full

    async def start(self) -> None:
        """Accept connections."""
        if self._tls_options:  # asyncio's server neither bounds nor aborts handshakes
            self._acceptor = Acceptor(self._sockets, self._begin_handshake, self._log)
            return
        for sock in self._sockets:
            self._servers.append(
                await self._loop.create_server(
                    partial(Connection, self._state), sock=sock, backlog=BACKLOG
                )
            )

    async def stop_accepting(self) -> None:
        """Accept no more connections except those already accepted by the kernel.

        From now on a connection is kept only while its client may assume that it is kept.
        """
        self._state.is_draining = True
        for connection in list(self._state.connections):
            connection.drain()
        sockets, self._sockets = self._sockets, []
        waiting = await stop_listening(sockets, self._stop_servers)
        if self._tls_options:
            for one in waiting:
                self._begin_handshake(one)
        else:
            await asyncio.gather(*map(self._adopt, waiting))

    def _begin_handshake(self, accepted: socket.socket, _: object = None) -> None:
        """Begin a TLS handshake; above the bound the oldest one is aborted."""
        if not self._state.has_file(accepted.fileno()):
            accepted.close()  # nothing can be sent before a handshake
            return
        handshakes_max = self._state.connections_max // SERVED_PER_HANDSHAKE
        if len(self._handshakes) >= handshakes_max and self._give_up_handshake():
            self._files.metrics.freed("handshakes")
        handshake = self._loop.create_task(self._adopt(accepted))
        self._handshakes[handshake] = None

        def ended(_: object) -> None:
            self._handshakes.pop(handshake, None)
            if handshake.cancelled():  # perhaps before it began
                accepted.close()

        handshake.add_done_callback(ended)

    def _give_up_handshake(self) -> bool:
        handshake = next(iter(self._handshakes), None)
        if handshake is None:
            return False
        del self._handshakes[handshake]
        handshake.cancel()
        return True

    def _counts(self) -> Mapping[str, int]:
        return {"handshaking": len(self._handshakes), **self._state.counts()}

    async def _adopt(self, accepted: socket.socket) -> None:
        """Serve a connection accepted by our own acceptor."""
        try:
            await self._loop.connect_accepted_socket(
                partial(Connection, self._state), accepted, **self._tls_options
            )
        except OSError as error:  # a disconnect, or a failed handshake
            self._log.debug("connection_not_made", error=repr(error))

    async def wait_for_clients(self, seconds: float) -> None:
        """Wait until no client is connected, at most `seconds`."""
        if self._handshakes:  # a client in its handshake is not among the connections
            began = self._loop.time()
            await asyncio.wait(self._handshakes, timeout=min(DRAIN_GRACE_SECONDS, seconds))
            seconds -= self._loop.time() - began
        await self._state.none_left(seconds)

    def _stop_servers(self) -> None:
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        if self._acceptor is not None:
            self._acceptor.stop()

    async def close(self) -> None:
        """Close every remaining connection after sending its written data."""
        self._stop_servers()
        while self._give_up_handshake():
            pass
        for connection in list(self._state.connections):
            connection.stop()
        await self._state.none_left(CLOSE_SECONDS)
        for connection in list(self._state.connections):
            connection.abort()

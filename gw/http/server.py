"""The public listening address on httptools."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from tornado.netutil import bind_sockets

from channels.resources import OpenFiles, is_out_of_files
from gw.config.config import ListenAddress
from gw.http.application import HttpApplication
from gw.http.connection import (
    DRAIN_GRACE_SECONDS,
    HEAD_SECONDS,
    LINGER_SECONDS,
    Connection,
    ServerState,
)
from metrics.logs import EventLog

# Listening sockets: bound, and closed without losing connections under way.
#
# Closing a listening socket resets every connection that waits to be accepted or is in its
# handshake; another socket on the same port (SO_REUSEPORT) does not inherit them. So new handshakes
# are stopped first: the kernel drops the first packet, and the client, which repeats it after a
# second, reaches the next process on the port, or is refused. Handshakes under way get a moment to
# end. Then the queue is emptied by accepting, and the socket is closed.

BACKLOG = 4096
# One round trip to a client on the same continent.
HANDSHAKE_SECONDS = 0.1

# Of <asm-generic/socket.h>; Python has no name for it.
_SO_ATTACH_FILTER = 26
# Instructions (code, true, false, operand) of the kernel's classic packet filter, on a packet from
# its TCP header on: drop a packet that has SYN without ACK.
_FLAGS_BYTE, _SYN, _SYN_ACK, _ALL = 13, 0x02, 0x12, 0xFFFFFFFF
_DROP_SYN = (
    (0x30, 0, 0, _FLAGS_BYTE),  # load the byte
    (0x54, 0, 0, _SYN_ACK),  # and
    (0x15, 0, 1, _SYN),  # equal?
    (0x06, 0, 0, 0),  # return
    (0x06, 0, 0, _ALL),
)


class AddressRefused(OSError):
    """An address cannot be listened on; the message contains the key of the configuration."""


def bind(
    address: ListenAddress,
    key: str,
    *,
    scheme: str = "http",
    shares_port: bool = False,
    is_open: bool = True,
) -> tuple[list[socket.socket], str]:
    """Return sockets of the address, and its URL. Raises AddressRefused, which contains `key`.

    `shares_port` lets several processes bind the same port. Sockets that are not open reserve the
    port and accept no connections.
    """
    with _naming(address, key):
        if is_open:
            sockets = bind_sockets(
                address.port, address.host, backlog=BACKLOG, reuse_port=shares_port
            )
        else:
            sockets = _reserve(address, shares_port=shares_port)
    for sock in sockets:  # inherited by accepted sockets: events of a stream must not wait
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sockets, f"{scheme}://{ListenAddress(address.host, sockets[0].getsockname()[1])}"


def check_free(address: ListenAddress, key: str, *, shares_port: bool = False) -> None:
    """Raise AddressRefused if `bind` would. No connection is accepted meanwhile."""
    for sock in bind(address, key, shares_port=shares_port, is_open=False)[0]:
        sock.close()


@contextmanager
def _naming(address: ListenAddress, key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise AddressRefused(f"{key}: {address}: {reason}") from error


def _reserve(address: ListenAddress, *, shares_port: bool) -> list[socket.socket]:
    """Bind a socket to each address that `bind_sockets` uses for a host, without listening."""
    found = socket.getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    port = address.port
    try:
        for family, kind, protocol, _, sockaddr in sorted(set(found), key=lambda one: one[0]):
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:
                if error.errno == errno.EAFNOSUPPORT:  # no IPv6
                    continue
                raise
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares_port))
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind((sockaddr[0], port, *sockaddr[2:]))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL or address.host != "localhost":
                    raise
                sockets.remove(sock)  # IPv6 without its loopback address
                sock.close()
                continue
            port = sock.getsockname()[1]
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def refuse_handshakes(listening: socket.socket) -> bool:
    """Let the kernel drop new handshakes; return False where it cannot (only Linux can)."""
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in _DROP_SYN)
    kept = ctypes.create_string_buffer(code)
    program = struct.pack("HP", len(_DROP_SYN), ctypes.addressof(kept))
    try:
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
    except OSError:
        return False
    return True


async def stop_listening(
    sockets: Sequence[socket.socket], stop: Callable[[], None]
) -> list[socket.socket]:
    """Close listening sockets; return their unaccepted connections to the caller."""
    kept = [sock.dup() for sock in sockets]  # the queue ends with the last one
    try:
        refusing = [refuse_handshakes(sock) for sock in kept]
        if any(refusing):
            await asyncio.sleep(HANDSHAKE_SECONDS)
        stop()
        await asyncio.sleep(0)  # connections accepted in this iteration are registered in the next
        return [connection for sock in kept for connection in _waiting(sock)]
    finally:
        for sock in kept:
            sock.close()


def _waiting(listening: socket.socket) -> Iterator[socket.socket]:
    listening.setblocking(False)
    while True:
        try:
            connection, _ = listening.accept()
        except ConnectionAbortedError:  # disconnected meanwhile
            continue
        except OSError:  # the queue is empty, or the limit of open files is reached
            return
        connection.setblocking(False)
        yield connection


# The pause before the next attempt when a connection could not be accepted.
ACCEPT_SECONDS = 1.0
# Connections accepted in one iteration of the loop.
ACCEPTS_MAX = 64


class Acceptor:
    """Passes each connection of listening sockets to `take`, with its address, until stopped.

    It pauses for ACCEPT_SECONDS when the process is out of files.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        take: Callable[[socket.socket, Any], None],
        log: EventLog,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = list(sockets)
        self._take = take
        self._log = log
        for sock in sockets:
            self._listen(sock)

    def stop(self) -> None:
        """Stop accepting, and close the sockets."""
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            self._loop.remove_reader(sock)
            sock.close()

    def _listen(self, sock: socket.socket) -> None:
        if sock in self._sockets:  # not closed meanwhile
            self._loop.add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                connection, address = sock.accept()
            except ConnectionAbortedError:  # disconnected meanwhile
                continue
            except BlockingIOError:
                return
            except OSError as error:
                if not is_out_of_files(error):
                    raise
                # Without a pause it would be ready in each iteration of the loop.
                self._log.error("accept_out_of_files", error=str(error))
                self._loop.remove_reader(sock)
                self._loop.call_later(ACCEPT_SECONDS, self._listen, sock)
                return
            connection.setblocking(False)
            self._take(connection, address)


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

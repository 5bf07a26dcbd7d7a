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

# Listening sockets: bound, and closed without losing a connection that was on its way.
#
# A listening socket that is closed resets every connection that waits to be accepted, and every one
# whose handshake is under way; another socket on the same port (SO_REUSEPORT) inherits neither. So
# first no handshake begins any more: the kernel drops its first packet, and the client, which sends
# it again after a second, finds the next process on the port, or is refused. Handshakes under way
# get a moment to end. Then what waits is taken out of the queue, and the socket is closed.

BACKLOG = 4096
# One round trip to a client on the same continent.
HANDSHAKE_SECONDS = 0.1

# Of <asm-generic/socket.h>; Python has no name for it.
_SO_ATTACH_FILTER = 26
# Instructions (code, true, false, operand) on a packet from its TCP header on, in the kernel's
# classic packet filter: none of it is kept when of SYN and ACK it has SYN alone.
_FLAGS_BYTE, _SYN, _SYN_ACK, _ALL = 13, 0x02, 0x12, 0xFFFFFFFF
_DROP_SYN = (
    (0x30, 0, 0, _FLAGS_BYTE),  # load the byte
    (0x54, 0, 0, _SYN_ACK),  # and
    (0x15, 0, 1, _SYN),  # equal?
    (0x06, 0, 0, 0),  # return
    (0x06, 0, 0, _ALL),
)


class AddressRefused(OSError):
    """An address cannot be listened on; the message names the key of the configuration."""


def bind(
    address: ListenAddress,
    key: str,
    *,
    scheme: str = "http",
    shares_port: bool = False,
    is_open: bool = True,
) -> tuple[list[socket.socket], str]:
    """Return sockets of the address, and its URL. Raises AddressRefused, which names `key`.

    `shares_port` lets several processes take the same port. Sockets that are not open have the
    port and take no connections.
    """
    with _naming(address, key):
        if is_open:
            sockets = bind_sockets(
                address.port, address.host, backlog=BACKLOG, reuse_port=shares_port
            )
        else:
            sockets = _reserve(address, shares_port=shares_port)
    for sock in sockets:  # what is accepted has it too: an event of a stream must not wait
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sockets, f"{scheme}://{ListenAddress(address.host, sockets[0].getsockname()[1])}"


def check_free(address: ListenAddress, key: str, *, shares_port: bool = False) -> None:
    """Raise AddressRefused where `bind` would. No connection is taken meanwhile."""
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
    """Bind a socket to each address that `bind_sockets` takes for a host, and listen on none."""
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
                if error.errno == errno.EAFNOSUPPORT:  # no IPv6 here
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
                sockets.remove(sock)  # IPv6 is there, and its loopback is not
                sock.close()
                continue
            port = sock.getsockname()[1]
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def refuse_handshakes(listening: socket.socket) -> bool:
    """Have the kernel drop what would begin a handshake; False where it cannot (only Linux can)."""
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
    """Close listening sockets; return connections that were not accepted, for the caller.

    `stop` ends the accepting loop, and may close them.
    """
    kept = [sock.dup() for sock in sockets]  # with the last of them the queue would be gone
    try:
        refusing = [refuse_handshakes(sock) for sock in kept]
        if any(refusing):
            await asyncio.sleep(HANDSHAKE_SECONDS)
        stop()
        await asyncio.sleep(0)  # what was accepted in this turn of the loop is known in the next
        return [connection for sock in kept for connection in _waiting(sock)]
    finally:
        for sock in kept:
            sock.close()


def _waiting(listening: socket.socket) -> Iterator[socket.socket]:
    listening.setblocking(False)
    while True:
        try:
            connection, _ = listening.accept()
        except ConnectionAbortedError:  # it has left meanwhile
            continue
        except OSError:  # none waits, or no more files may be opened
            return
        connection.setblocking(False)
        yield connection


# What cannot be accepted is tried again after so long.
ACCEPT_SECONDS = 1.0
# So many are accepted in one turn of the loop.
ACCEPTS_MAX = 64


class Acceptor:
    """Hands each connection of listening sockets to `take`, with its address, until stopped.

    Where the process has no file for one, it pauses for ACCEPT_SECONDS.
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
        """Take no more connections, and close the sockets."""
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
            except ConnectionAbortedError:  # it has left meanwhile
                continue
            except BlockingIOError:
                return
            except OSError as error:
                if not is_out_of_files(error):
                    raise
                # It would be ready to accept in each turn of the loop.
                self._log.error("accept_out_of_files", error=str(error))
                self._loop.remove_reader(sock)
                self._loop.call_later(ACCEPT_SECONDS, self._listen, sock)
                return
            connection.setblocking(False)
            self._take(connection, address)


# What is left at the end may take so long to send what was written to it.
CLOSE_SECONDS = 2.0
# For each so many clients that may be served, one TLS handshake may be under way.
SERVED_PER_HANDSHAKE = 4


class Server:
    """The application on an address; port 0 takes any free port, `url` has it."""

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
        # A handshake is bounded like a head, the end of TLS like what comes before it.
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
        self._acceptor: Acceptor | None = None  # with TLS, in place of these
        self._handshakes: dict[asyncio.Task[None], None] = {}  # those under way, the longest first
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
        if self._tls_options:  # the loop's own server counts no handshake, and ends none
            self._acceptor = Acceptor(self._sockets, self._begin_handshake, self._log)
            return
        for sock in self._sockets:
            self._servers.append(
                await self._loop.create_server(
                    partial(Connection, self._state), sock=sock, backlog=BACKLOG
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
        if self._tls_options:
            for one in waiting:
                self._begin_handshake(one)
        else:
            await asyncio.gather(*map(self._adopt, waiting))

    def _begin_handshake(self, accepted: socket.socket, _: object = None) -> None:
        """Begin a TLS handshake; for one too many the one that has taken longest is given up."""
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
        """Serve a connection that the loop's own server has not accepted."""
        try:
            await self._loop.connect_accepted_socket(
                partial(Connection, self._state), accepted, **self._tls_options
            )
        except OSError as error:  # it has left, or its handshake failed
            self._log.debug("connection_not_made", error=repr(error))

    async def wait_for_clients(self, seconds: float) -> None:
        """Wait so long, or until no client is connected."""
        if self._handshakes:  # who is amid one is not yet among the connections
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
        """Close every connection that is left, once what was written to it is out."""
        self._stop_servers()
        while self._give_up_handshake():
            pass
        for connection in list(self._state.connections):
            connection.stop()
        await self._state.none_left(CLOSE_SECONDS)
        for connection in list(self._state.connections):
            connection.abort()

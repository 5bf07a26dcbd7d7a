"""Opens connections: resolves the name, connects to the first address that accepts, starts TLS.

Addresses are tried as in RFC 8305: the families alternate, the next address is tried when the
previous one has failed or not connected for a moment, and the first connection wins.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from channels.errors import NoFileLeft, UpstreamUnreachable
from channels.http.connection import UpstreamConnection
from channels.http.names import look_up
from channels.http.origin import Origin
from channels.http.transport import Proxy
from channels.open_files import OpenFiles, is_out_of_files

# Whether connecting to an address, given as text, is allowed.
Allows = Callable[[str], bool]

DNS_CACHE_SECONDS = 60.0
# How long an address may take before the next one is tried in parallel.
NEXT_ADDRESS_SECONDS = 0.25


class SocketAddress(NamedTuple):
    """One address of an origin."""

    family: int
    address: Any  # in the family's form


class AddressRefused(UpstreamUnreachable):
    """A name's addresses may not be connected to."""


class Dialer:
    """Opens connections to one origin, one per call.

    `allows` is applied to the addresses, not to names; if it `judges_all`, one address that is not
    allowed refuses the name, else the others are used. With a `proxy` the addresses connected to
    are the proxy's, and the proxy resolves the origin; `allows` is then applied to the addresses
    that the origin has here, if any.
    """

    def __init__(
        self,
        origin: Origin,
        *,
        connect_seconds: float,
        tls: Callable[[], ssl.SSLContext],
        allows: Allows | None = None,
        judges_all: bool = False,
        proxy: Proxy | None = None,
        files: OpenFiles | None = None,
    ) -> None:
        self._files = files
        self._allows = allows
        self._judges_all = judges_all
        self._proxy = proxy
        self._host, self._port = (proxy or origin).host, (proxy or origin).port
        self._origin = origin
        self._connect_seconds = connect_seconds
        self.tls = tls  # called for each connection
        self._addresses: Sequence[SocketAddress] = ()
        self._good_until = 0.0  # loop time
        self._resolving = asyncio.Lock()

    async def dial(self, new_connection: Callable[[], UpstreamConnection]) -> UpstreamConnection:
        """Open a connection. Raises UpstreamUnreachable."""
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await self._dial(new_connection)
        except TimeoutError as error:
            raise UpstreamUnreachable(f"{self._origin}: no connection in time") from error
        except (OSError, ValueError) as error:
            # Also of TLS and the look-up, which raise OSError; ValueError for an invalid name or
            # certificate file.
            if is_out_of_files(error):
                raise NoFileLeft(f"{self._origin}: {error}") from error
            self._good_until = 0.0  # its addresses may have changed
            raise UpstreamUnreachable(f"{self._origin}: {type(error).__name__}: {error}") from error

    async def _dial(self, new_connection: Callable[[], UpstreamConnection]) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        # Reading the system's certificates would block the event loop for too long.
        context = await asyncio.to_thread(self.tls) if self._origin.is_secure else None
        sock = await first_connected(await self._resolved(), self._files)
        if self._proxy is not None:
            try:
                await self._proxy.tunnel(sock, self._origin.host, self._origin.port)
            except BaseException:
                sock.close()
                raise
        connection = new_connection()
        try:
            # From here on the transport owns the socket, and closes it on failure.
            await loop.create_connection(
                lambda: connection,
                sock=sock,
                ssl=context,
                server_hostname=self._origin.host if context is not None else None,
            )
        except BaseException:
            connection.given_up()
            raise
        return connection

    async def _resolved(self) -> Sequence[SocketAddress]:
        """Return the origin's addresses, resolved once for all concurrent callers."""
        loop = asyncio.get_running_loop()
        async with self._resolving:
            if loop.time() >= self._good_until:
                found = await self._look_up(self._host, self._port)
                addresses = [SocketAddress(one[0], one[4]) for one in found]
                if self._allows is not None and self._proxy is not None:
                    await self._judge_origin(self._allows)
                elif self._allows is not None:
                    allowed = [one for one in addresses if self._allows(str(one.address[0]))]
                    is_refused = self._judges_all and len(allowed) < len(addresses)
                    addresses = allowed
                    if is_refused or not addresses:
                        raise AddressRefused(f"{self._host}: not a public address")
                self._addresses = in_turn(addresses)
                self._good_until = loop.time() + DNS_CACHE_SECONDS
            return self._addresses

    async def _look_up(self, host: str, port: int) -> Sequence[tuple[Any, ...]]:
        """Look a name up: one of the configuration, or (`allows`) of a stranger."""
        if self._allows is not None and self._proxy is None:
            return await look_up(host, port)
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    async def _judge_origin(self, allows: Allows) -> None:
        """Raise AddressRefused for an origin that must not be reached through a proxy.

        The proxy may use any of its addresses; a name that only the proxy resolves is left to it.
        """
        host, port = self._origin.host, self._origin.port
        try:
            found = await look_up(host, port)
        except socket.gaierror:
            return
        if not all(allows(str(one[4][0])) for one in found):
            raise AddressRefused(f"{host}: not a public address")


def in_turn(addresses: Sequence[SocketAddress]) -> Sequence[SocketAddress]:
    """Interleave addresses by family, beginning with the family of the first one."""
    families: dict[int, list[SocketAddress]] = {}
    for one in addresses:
        families.setdefault(one.family, []).append(one)
    rounds = zip_longest(*families.values())
    return [one for one in chain.from_iterable(rounds) if one is not None]


async def first_connected(
    addresses: Sequence[SocketAddress], files: OpenFiles | None = None
) -> socket.socket:
    """Return a socket connected to one of the addresses. Raises the last address's OSError."""
    if len(addresses) == 1:
        return await _connected(addresses[0], files)
    fault: OSError = OSError("no address")
    waiting = list(reversed(addresses))
    trying: set[asyncio.Task[socket.socket]] = set()
    try:
        while waiting or trying:
            if waiting:
                trying.add(asyncio.ensure_future(_connected(waiting.pop(), files)))
            done, trying = await asyncio.wait(
                trying,
                timeout=NEXT_ADDRESS_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            won: socket.socket | None = None
            for task in done:
                try:
                    sock = task.result()
                except OSError as error:
                    fault = error
                    continue
                if won is None:
                    won = sock
                else:
                    sock.close()
            if won is not None:
                return won
        raise fault
    finally:
        for task in trying:
            task.add_done_callback(_close_late)
            task.cancel()


def _close_late(task: asyncio.Task[socket.socket]) -> None:
    """Close a socket that connected after another address had won."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _connected(address: SocketAddress, files: OpenFiles | None) -> socket.socket:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        if files is not None and not files.has_room(sock.fileno()):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        sock.setblocking(False)
        # Models think for minutes: keepalives detect a dead path, and keep NAT entries alive.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, address.address)
    except BaseException:
        sock.close()
        raise
    return sock

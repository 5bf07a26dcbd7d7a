"""Makes connections: a name's addresses, the first of them that answers, TLS.

Addresses are tried as RFC 8305 has it: both families in turn, the next one when the one before has
failed or been silent for a moment, and the first that is connected wins.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from channels.errors import UpstreamUnreachable
from channels.http.connection import UpstreamConnection
from channels.http.origin import Origin
from channels.http.transport import Proxy

# Whether an address, as text, may be connected to.
Allows = Callable[[str], bool]

DNS_CACHE_SECONDS = 60.0
# How long an address may be silent before the next one is tried beside it.
NEXT_ADDRESS_SECONDS = 0.25


class SocketAddress(NamedTuple):
    """One address of an origin."""

    family: int
    address: Any  # as the family has it


class AddressRefused(UpstreamUnreachable):
    """A name leads to no address that may be connected to."""


class Dialer:
    """Makes connections to one origin, one for each caller.

    `allows` is asked about the addresses themselves, behind any name. With a `proxy` it is the
    proxy's addresses that are connected to, and the proxy looks up the origin's; `allows` is asked
    about those that the origin has here, if it has any.
    """

    def __init__(
        self,
        origin: Origin,
        *,
        connect_seconds: float,
        tls: Callable[[], ssl.SSLContext],
        allows: Allows | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self._allows = allows
        self._proxy = proxy
        self._host, self._port = (proxy or origin).host, (proxy or origin).port
        self._origin = origin
        self._connect_seconds = connect_seconds
        self.tls = tls  # asked for each connection
        self._addresses: Sequence[SocketAddress] = ()
        self._good_until = 0.0  # loop time
        self._resolving = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Dialer {self._origin} {len(self._addresses)} addresses>"

    async def dial(self, new_connection: Callable[[], UpstreamConnection]) -> UpstreamConnection:
        """Connect. Raises UpstreamUnreachable."""
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await self._dial(new_connection)
        except TimeoutError as error:
            raise UpstreamUnreachable(f"{self._origin}: no connection in time") from error
        except (OSError, ValueError) as error:
            # Of TLS and of the look-up, too: both are an OSError; a name may be no name, a file of
            # certificates none.
            self._good_until = 0.0  # it may have moved
            raise UpstreamUnreachable(f"{self._origin}: {type(error).__name__}: {error}") from error

    async def _dial(self, new_connection: Callable[[], UpstreamConnection]) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        # Reading the system's certificates takes longer than the loop may be held up.
        context = await asyncio.to_thread(self.tls) if self._origin.is_secure else None
        sock = await first_connected(await self._resolved())
        if self._proxy is not None:
            try:
                await self._proxy.tunnel(sock, self._origin.host, self._origin.port)
            except BaseException:
                sock.close()
                raise
        connection = new_connection()
        try:
            # From here on the socket is the transport's, which closes it when it comes to nothing.
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
        """The origin's addresses; asked for once, however many wait for them."""
        loop = asyncio.get_running_loop()
        async with self._resolving:
            if loop.time() >= self._good_until:
                found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                addresses = [SocketAddress(one[0], one[4]) for one in found]
                if self._allows is not None and self._proxy is not None:
                    await self._judge_origin(self._allows)
                elif self._allows is not None:
                    addresses = [one for one in addresses if self._allows(str(one.address[0]))]
                    if not addresses:
                        raise AddressRefused(f"{self._host}: not a public address")
                self._addresses = in_turn(addresses)
                self._good_until = loop.time() + DNS_CACHE_SECONDS
            return self._addresses

    async def _judge_origin(self, allows: Allows) -> None:
        """Raise AddressRefused for an origin that may not be asked for through a proxy.

        Of its addresses the proxy may take any; a name that only the proxy knows is its business.
        """
        host, port = self._origin.host, self._origin.port
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror:
            return
        if not all(allows(str(one[4][0])) for one in found):
            raise AddressRefused(f"{host}: not a public address")


def in_turn(addresses: Sequence[SocketAddress]) -> Sequence[SocketAddress]:
    """Addresses interleaved by family, beginning with the first one's."""
    families: dict[int, list[SocketAddress]] = {}
    for one in addresses:
        families.setdefault(one.family, []).append(one)
    rounds = zip_longest(*families.values())
    return [one for one in chain.from_iterable(rounds) if one is not None]


async def first_connected(addresses: Sequence[SocketAddress]) -> socket.socket:
    """A socket connected to one of the addresses. Raises OSError, the last address's."""
    if len(addresses) == 1:
        return await _connected(addresses[0])
    fault: OSError = OSError("no address")
    waiting = list(reversed(addresses))
    trying: set[asyncio.Task[socket.socket]] = set()
    try:
        while waiting or trying:
            if waiting:
                trying.add(asyncio.ensure_future(_connected(waiting.pop())))
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
    """Close a socket that lost the race to another address, though it connected."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _connected(address: SocketAddress) -> socket.socket:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # Models think for minutes: let a dead path be noticed, and gateways between us stay open.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, address.address)
    except BaseException:
        sock.close()
        raise
    return sock

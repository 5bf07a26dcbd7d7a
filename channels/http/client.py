"""The HTTP/1.1 client for upstreams.

It encodes a request's head, takes an idle connection from the pool or opens a new one, and returns
the response; `connection.py` sends and reads.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from channels.errors import NoFileLeft, UpstreamUnreachable
from channels.http.connection import Http1Response, StaleConnection, UpstreamConnection
from channels.http.interfaces import Authorizer, UpstreamClient, UpstreamRequest
from channels.http.transport import Proxy, Transport, verifying
from channels.resources import Deadlines, OpenFiles, is_out_of_files
from metrics.version import release

# The connections to one origin, idle or in use.
#
# It has no limit: the channels' slots are the limit. Connections are made by the dialer below, and
# read by `connection.py`.

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

    def __repr__(self) -> str:
        return f"<TurnWrites {len(self._connections)} requests>"

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


# From a URL to its origin, and from a request to the bytes of its head.

_DEFAULT_PORTS = {"http": 80, "https": 443}
_TARGET = re.compile(r"[!-~]*", re.ASCII)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class Origin(NamedTuple):
    """One server: requests to the same origin may share connections."""

    scheme: str  # http or https
    host: str  # a name, or an address without brackets
    port: int

    @property
    def is_secure(self) -> bool:
        """Whether it uses TLS."""
        return self.scheme == "https"


class ParsedUrl(NamedTuple):
    """A URL split in two; its target is not quoted again."""

    origin: Origin
    target: str


def address_of(url: str) -> ParsedUrl:
    """Split an absolute URL. Raises UpstreamUnreachable for an invalid one."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UpstreamUnreachable(f"{_shown(url)}: {error}") from error
    if parts.scheme not in _DEFAULT_PORTS or not host or not host.isascii():
        raise UpstreamUnreachable(f"{_shown(url)}: no address of a server")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _TARGET.fullmatch(target):
        raise UpstreamUnreachable(f"{_shown(url)}: a character that no request line may have")
    return ParsedUrl(Origin(parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme]), target)


def _shown(url: str) -> str:
    """Return a URL without its query, which may hold a key."""
    return url.partition("?")[0]


def head_of(
    method: str,
    address: ParsedUrl,
    headers: tuple[tuple[str, str], ...],
    *,
    user_agent: str,
) -> bytes:
    """Encode the head of a request, up to its Content-Length. Raises UpstreamUnreachable.

    Invalid headers come from the configuration: the channel is unreachable.
    """
    origin = address.origin
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    if origin.port != _DEFAULT_PORTS[origin.scheme]:
        host = f"{host}:{origin.port}"
    lines = [f"{method} {address.target} HTTP/1.1"]
    for name, value in (
        ("Host", host),
        *headers,
        ("Accept-Encoding", "identity"),
        ("User-Agent", user_agent),
    ):
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise UpstreamUnreachable(f"header {name!r} has a character that none may have")
        lines.append(f"{name}: {value}")
    return "\r\n".join((*lines, "")).encode()


def with_length(head: bytes, request: UpstreamRequest) -> bytes:
    """Complete a head: every request except a GET without a body has a Content-Length."""
    size = len(request.body)
    more = request.proof if request.trace is None else request.proof + request.trace.header
    if not size and request.method == "GET":
        return b"%b%b\r\n" % (head, more)
    return b"%b%bContent-Length: %d\r\n\r\n" % (head, more, size)


# Opens connections: resolves the name, connects to the first address that accepts, starts TLS.
#
# Addresses are tried as in RFC 8305: the families alternate, the next address is tried when the
# previous one has failed or not connected for a moment, and the first connection wins.

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
    """None of a name's addresses may be connected to."""


class Dialer:
    """Opens connections to one origin, one per call.

    `allows` is applied to the addresses, not to names. With a `proxy` the addresses connected to
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
        proxy: Proxy | None = None,
        files: OpenFiles | None = None,
    ) -> None:
        self._files = files
        self._allows = allows
        self._proxy = proxy
        self._host, self._port = (proxy or origin).host, (proxy or origin).port
        self._origin = origin
        self._connect_seconds = connect_seconds
        self.tls = tls  # called for each connection
        self._addresses: Sequence[SocketAddress] = ()
        self._good_until = 0.0  # loop time
        self._resolving = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Dialer {self._origin} {len(self._addresses)} addresses>"

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
        """Raise AddressRefused for an origin that must not be reached through a proxy.

        The proxy may use any of its addresses; a name that only the proxy resolves is left to it.
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


# Size of the cache of heads: one for each channel and protocol.
HEADS_MAX = 1024


class OriginRoute(NamedTuple):
    """An origin with its connections and its dialer."""

    pool: OriginPool
    dialer: Dialer


class HttpClient(UpstreamClient):
    """Keeps connections alive and shares them between requests to the same origin.

    No redirects, no cookies, no decompression; a proxy if the request's transport has one. A reused
    connection that the upstream closed before it had the whole request is replaced by a new one,
    once. A request that has arrived is never sent twice. `allows` decides which addresses may be
    connected to; None allows all. `files` counts its connections among the open files, and may
    close idle ones.
    """

    def __init__(
        self,
        *,
        connect_seconds: float,
        tls: Callable[[], ssl.SSLContext] | None = None,
        allows: Allows | None = None,
        files: OpenFiles | None = None,
    ) -> None:
        self._allows = allows
        self._files = files
        self._connect_seconds = connect_seconds
        self._make_tls = tls or verifying
        self._tls = functools.cache(self._make_tls)
        self._routes: dict[tuple[Origin, Transport | None], OriginRoute] = {}
        self._writes = TurnWrites()
        self._way = functools.lru_cache(maxsize=HEADS_MAX)(self._new_way)
        self._user_agent = f"gw/{release()}"
        self._is_closed = False
        if files is not None:
            files.add("upstreams", self._count, self._close_idlest, idle=self._count_idle)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<HttpClient {state} {[route.pool for route in self._routes.values()]}>"

    async def open(self, request: UpstreamRequest) -> Http1Response:
        """See UpstreamClient."""
        assert not self._is_closed
        if request.authorizer is not None:
            return await self._open_proved(request, request.authorizer)
        route, head = self._way(request.method, request.url, request.headers, request.transport)
        head = with_length(head, request)
        connection = route.pool.take()
        is_reused = connection is not None
        while True:
            if connection is None:
                connection = await self._new_connection(route)
            if request.trace is not None:
                request.trace.connected(is_reused=is_reused)
            if request.sender is not None:
                request.sender.is_sent = True
            response = connection.exchange(head, request.body)
            try:
                if response.fault is None:
                    await response.arrival()
            except asyncio.CancelledError:
                response.close()
                raise
            if response.status:
                return response
            fault = response.fault
            assert fault is not None
            if not isinstance(fault, StaleConnection):
                raise fault
            if self._is_closed:
                raise UpstreamUnreachable(fault) from fault
            connection, is_reused = None, False

    async def _new_connection(self, route: OriginRoute) -> UpstreamConnection:
        connection = await route.dialer.dial(route.pool.new_connection)
        if self._is_closed:
            connection.abort()
            raise UpstreamUnreachable("closed by the gateway")
        if not connection.is_usable:
            raise UpstreamUnreachable("closed by the upstream as soon as it was made")
        return connection

    async def _open_proved(self, request: UpstreamRequest, authorizer: Authorizer) -> Http1Response:
        """Send a request with its proof, and once more if a new proof may be accepted."""
        bare = replace(request, authorizer=None)
        response = await self.open(replace(bare, proof=await authorizer.proof(bare, self)))
        if authorizer.may_mend(response):
            response.close()
            response = await self.open(replace(bare, proof=await authorizer.proof(bare, self)))
        return response

    def renew_certificates(self) -> None:
        """Read the certificate files again for new connections."""
        self._tls = functools.cache(self._make_tls)
        for (_, transport), route in self._routes.items():
            route.dialer.tls = self._tls_of(transport)

    async def close(self) -> None:
        """Abort every connection, idle or not."""
        self._is_closed = True
        for route in self._routes.values():
            await route.pool.close()

    def _new_way(
        self,
        method: str,
        url: str,
        headers: tuple[tuple[str, str], ...],
        transport: Transport | None,
    ) -> tuple[OriginRoute, bytes]:
        """Return the route of a request, and its head without the length."""
        # The response parser cannot know that a response to HEAD has no body.
        assert method != "HEAD"
        address = address_of(url)
        head = head_of(method, address, headers, user_agent=self._user_agent)
        route = self._routes.get((address.origin, transport))
        if route is None:
            dialer = Dialer(
                address.origin,
                connect_seconds=self._connect_seconds,
                tls=self._tls_of(transport),
                allows=self._allows,
                proxy=transport.proxy if transport is not None else None,
                files=self._files,
            )
            route = OriginRoute(OriginPool(asyncio.get_running_loop(), self._writes), dialer)
            self._routes[address.origin, transport] = route
        return route, head

    def _count(self) -> int:
        return sum(len(route.pool) for route in list(self._routes.values()))

    def _count_idle(self) -> int:
        return sum(route.pool.idle_count for route in list(self._routes.values()))

    def _close_idlest(self) -> bool:
        """Close the longest idle connection of any origin."""
        pools = [route.pool for route in self._routes.values()]
        return bool(pools) and min(pools, key=lambda pool: pool.idle_until).close_idlest()

    def _tls_of(self, transport: Transport | None) -> Callable[[], ssl.SSLContext]:
        """Return a factory of the TLS settings, which makes them on first use."""
        return self._tls if transport is None else functools.cache(transport.tls_context)

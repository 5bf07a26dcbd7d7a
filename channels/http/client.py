"""The HTTP/1.1 client that talks to upstreams.

It writes a request's head, takes an idle connection from the pool or opens a new one, and returns
the response; `connection.py` sends and reads.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import re
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from channels.errors import NoFileLeft, UpstreamUnreachable
from channels.http.connection import Http1Response, StaleConnection, UpstreamConnection
from channels.http.interfaces import Authorizer, UpstreamRequest, Wire
from channels.http.transport import Proxy, Transport, verifying
from channels.resources import Deadlines, OpenFiles, is_out_of_files
from metrics.version import release

# The connections to one origin: those that wait for a request, and all there are.
#
# Without a limit of its own: the channels' slots are the limit. Makes no connection by itself (this
# file) and reads none (`connection.py`).

# Below the 60-75 s after which servers and balancers commonly close an idle connection.
IDLE_SECONDS = 30.0


class OriginPool:
    """Keeps connections alive for the next request; the one used last goes first."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._all: set[UpstreamConnection] = set()
        # One that is idle for too long is closed.
        self._idle = Deadlines(IDLE_SECONDS, UpstreamConnection.abort)
        self._poll = select.poll()
        self._emptied: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<OriginPool {len(self._all)} connections, {len(self._idle)} idle>"

    def new_connection(self) -> UpstreamConnection:
        """The protocol of a connection that is being made."""
        return UpstreamConnection(self)

    def take(self) -> UpstreamConnection | None:
        """An idle connection, if there is one that still seems good.

        One on which anything has come while it was idle is not: be it the end of the stream, or an
        response to no request, which the next request would get for its own.
        """
        while (connection := self._idle.end_latest()) is not None:
            if connection.is_usable:
                if not self._has_unread(connection):
                    return connection
                connection.abort()
        return None

    def __len__(self) -> int:
        """How many connections there are."""
        return len(self._all)

    @property
    def idle_count(self) -> int:
        """How many of them are idle."""
        return len(self._idle)

    @property
    def idle_until(self) -> float:
        """When the connection that is idle for longest would be closed, in loop time."""
        return self._idle.earliest

    def close_idlest(self) -> bool:
        """Close that connection; False when none is idle."""
        connection = self._idle.end_earliest()
        if connection is None:
            return False
        connection.abort()
        return True

    async def close(self) -> None:
        """Break every connection, idle or not; wait until they are gone."""
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

    def on_idle(self, connection: UpstreamConnection) -> None:
        """See ConnectionOwner."""
        self._idle.begin(connection)

    def on_closed(self, connection: UpstreamConnection) -> None:
        """See ConnectionOwner."""
        self._idle.end(connection)
        self._all.discard(connection)
        if not self._all and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _has_unread(self, connection: UpstreamConnection) -> bool:
        """Whether the system has something of it that the loop has not read yet."""
        poll, fileno = self._poll, connection.fileno()
        poll.register(fileno, select.POLLIN)
        has_unread = bool(poll.poll(0))
        poll.unregister(fileno)
        return has_unread


# Where a request goes and how its head is written: from a URL to an origin and to bytes.

_DEFAULT_PORTS = {"http": 80, "https": 443}
_TARGET = re.compile(r"[!-~]*", re.ASCII)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class Origin(NamedTuple):
    """One server: requests to the same one may share connections."""

    scheme: str  # http or https
    host: str  # a name, or an address without brackets
    port: int

    @property
    def is_secure(self) -> bool:
        """Whether it is spoken to in TLS."""
        return self.scheme == "https"


class ParsedUrl(NamedTuple):
    """A URL, taken apart: nothing of its target is quoted anew."""

    origin: Origin
    target: str


def address_of(url: str) -> ParsedUrl:
    """Take an absolute URL apart. Raises UpstreamUnreachable for one that leads nowhere."""
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
    """A URL without its query, which may hold a key."""
    return url.partition("?")[0]


def head_of(
    method: str,
    address: ParsedUrl,
    headers: tuple[tuple[str, str], ...],
    *,
    user_agent: str,
) -> bytes:
    """The head of a request, up to its Content-Length. Raises UpstreamUnreachable.

    A header that cannot be sent is one of the configuration's: that channel leads nowhere.
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
    """A whole head: no request but a GET leaves its length unsaid."""
    # The parser of responses cannot know that one to HEAD has no body.
    assert request.method != "HEAD"
    size = len(request.body)
    more = request.proof if request.trace is None else request.proof + request.trace.header
    if not size and request.method == "GET":
        return b"%b%b\r\n" % (head, more)
    return b"%b%bContent-Length: %d\r\n\r\n" % (head, more, size)


# Makes connections: a name's addresses, the first of them that answers, TLS.
#
# Addresses are tried as RFC 8305 has it: both families in turn, the next one when the one before
# has failed or been silent for a moment, and the first that is connected wins.

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
        files: OpenFiles | None = None,
    ) -> None:
        self._files = files
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
            if is_out_of_files(error):
                raise NoFileLeft(f"{self._origin}: {error}") from error
            self._good_until = 0.0  # it may have moved
            raise UpstreamUnreachable(f"{self._origin}: {type(error).__name__}: {error}") from error

    async def _dial(self, new_connection: Callable[[], UpstreamConnection]) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        # Reading the system's certificates takes longer than the loop may be held up.
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


async def first_connected(
    addresses: Sequence[SocketAddress], files: OpenFiles | None = None
) -> socket.socket:
    """A socket connected to one of the addresses. Raises OSError, the last address's."""
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
    """Close a socket that lost the race to another address, though it connected."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _connected(address: SocketAddress, files: OpenFiles | None) -> socket.socket:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        if files is not None and not files.has_room(sock.fileno()):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        sock.setblocking(False)
        # Models think for minutes: let a dead path be noticed, and gateways between us stay open.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, address.address)
    except BaseException:
        sock.close()
        raise
    return sock


# Heads that are kept: one for each channel and protocol.
HEADS_MAX = 1024


class OriginRoute:
    """An origin, with its connections and the way to it."""

    __slots__ = ("dialer", "pool")

    def __init__(self, pool: OriginPool, dialer: Dialer) -> None:
        self.pool = pool
        self.dialer = dialer


class HttpWire(Wire):
    """Keeps connections alive and shares them between requests to the same origin.

    No redirects, no cookies, no decompression; a proxy where a request's transport has one. A
    connection that had been kept alive and was closed by the upstream before the request had
    arrived there is replaced by a new one, once. A request that has arrived is never sent twice.
    `allows` decides which addresses may be connected to; without it all may. In an account of open
    `files` its connections are a part, of which idle ones give way.
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
        self._way = functools.lru_cache(maxsize=HEADS_MAX)(self._new_way)
        self._user_agent = f"gw/{release()}"
        self._is_closed = False
        if files is not None:
            files.add("upstreams", self._count, self._close_idlest, idle=self._count_idle)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<HttpWire {state} {[route.pool for route in self._routes.values()]}>"

    async def open(self, request: UpstreamRequest) -> Http1Response:
        """See Wire."""
        assert not self._is_closed
        if request.authorizer is not None:
            return await self._open_proved(request, request.authorizer)
        route, head = self._way(request.method, request.url, request.headers, request.transport)
        head = with_length(head, request)
        kept = route.pool.take()
        trace = request.trace
        if kept is not None:
            if trace is not None:
                trace.connected(is_reused=True)
            try:
                response = kept.exchange(head, request.body)
                await response.opened()
                return response
            except StaleConnection as stale:
                if self._is_closed:
                    raise UpstreamUnreachable(stale) from stale
        connection = await route.dialer.dial(route.pool.new_connection)
        if self._is_closed:
            connection.abort()
            raise UpstreamUnreachable("closed by the gateway")
        if not connection.is_usable:
            raise UpstreamUnreachable("closed by the upstream as soon as it was made")
        if trace is not None:
            trace.connected(is_reused=False)
        response = connection.exchange(head, request.body)
        await response.opened()
        return response

    async def _open_proved(self, request: UpstreamRequest, authorizer: Authorizer) -> Http1Response:
        """Send a request with its proof, and once more where another one may be taken."""
        bare = replace(request, authorizer=None)
        response = await self.open(replace(bare, proof=await authorizer.proof(bare, self)))
        if authorizer.may_mend(response):
            response.close()
            response = await self.open(replace(bare, proof=await authorizer.proof(bare, self)))
        return response

    def renew_certificates(self) -> None:
        """Read the files of certificates again, for connections made from now on."""
        self._tls = functools.cache(self._make_tls)
        for (_, transport), route in self._routes.items():
            route.dialer.tls = self._tls_of(transport)

    async def close(self) -> None:
        """Break every connection, idle or not."""
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
        """Where a request goes, and its head but for the length."""
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
            route = OriginRoute(OriginPool(asyncio.get_running_loop()), dialer)
            self._routes[address.origin, transport] = route
        return route, head

    def _count(self) -> int:
        return sum(len(route.pool) for route in list(self._routes.values()))

    def _count_idle(self) -> int:
        return sum(route.pool.idle_count for route in list(self._routes.values()))

    def _close_idlest(self) -> bool:
        """Close the connection that has been idle for longest, whichever its origin."""
        pools = [route.pool for route in self._routes.values()]
        return bool(pools) and min(pools, key=lambda pool: pool.idle_until).close_idlest()

    def _tls_of(self, transport: Transport | None) -> Callable[[], ssl.SSLContext]:
        """The TLS settings of connections made this way: made when they are first needed."""
        return self._tls if transport is None else functools.cache(transport.tls_context)

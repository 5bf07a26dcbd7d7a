"""The HTTP/1.1 client that talks to upstreams.

From a request to its response: `origin.py` writes the head, `pool.py` finds a connection or
`dialer.py` makes one, `connection.py` sends and reads, `response.py` is what the caller gets.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable

from msgspec.structs import replace

from channels.errors import UpstreamUnreachable
from channels.http.connection import StaleConnection
from channels.http.dialer import Allows, Dialer
from channels.http.interfaces import Authorizer, UpstreamRequest, Wire
from channels.http.origin import Origin, address_of, head_of, with_length
from channels.http.pool import OriginPool
from channels.http.response import Http1Response
from channels.http.transport import Transport, verifying
from metrics.version import release

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
    `allows` says which addresses may be connected to; without it all may.
    """

    def __init__(
        self,
        *,
        connect_seconds: float,
        tls: Callable[[], ssl.SSLContext] | None = None,
        allows: Allows | None = None,
    ) -> None:
        self._allows = allows
        self._connect_seconds = connect_seconds
        self._make_tls = tls or verifying
        self._tls = functools.cache(self._make_tls)
        self._routes: dict[tuple[Origin, Transport | None], OriginRoute] = {}
        self._way = functools.lru_cache(maxsize=HEADS_MAX)(self._new_way)
        self._user_agent = f"gw/{release()}"
        self._is_closed = False

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
            )
            route = OriginRoute(OriginPool(asyncio.get_running_loop()), dialer)
            self._routes[address.origin, transport] = route
        return route, head

    def _tls_of(self, transport: Transport | None) -> Callable[[], ssl.SSLContext]:
        """The TLS settings of connections made this way: made when they are first needed."""
        return self._tls if transport is None else functools.cache(transport.tls_context)

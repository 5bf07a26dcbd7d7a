"""The HTTP/1.1 client for upstreams.

It encodes a request's head, takes an idle connection from the pool (`connection_pool.py`) or opens
a new one (`dialer.py`), and returns the response; `connection.py` sends and reads.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from channels.errors import UpstreamUnreachable
from channels.http.connection import StaleConnection, UpstreamConnection
from channels.http.connection_pool import OriginPool, TurnWrites
from channels.http.dialer import Allows, Dialer
from channels.http.interfaces import Authorizer, UpstreamClient, UpstreamRequest
from channels.http.origin import Origin, address_of
from channels.http.request_head import head_of, with_length
from channels.http.response import Http1Response
from channels.http.transport import Transport, verifying
from channels.open_files import OpenFiles
from metrics.version import release

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
    connected to; None allows all; if it `judges_all`, a name must have no other. `files` counts
    its connections among the open files, and may close idle ones.
    """

    def __init__(
        self,
        *,
        connect_seconds: float,
        tls: Callable[[], ssl.SSLContext] | None = None,
        allows: Allows | None = None,
        judges_all: bool = False,
        files: OpenFiles | None = None,
    ) -> None:
        self._allows = allows
        self._judges_all = judges_all
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
                judges_all=self._judges_all,
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

"""What an upstream request, its response and its client are, whatever carries them.

`client.py` beside this is the one way there is; tests have others.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from channels.errors import ErrorMembers
from channels.http.transport import Transport
from channels.registry import KEY_REFUSALS, ChannelKey
from metrics.spans import RequestTrace


class UpstreamRequest(Struct, frozen=True):
    """One request, complete: absolute URL, headers in order, body, and how it gets there."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    transport: Transport | None = None  # None: the usual one
    key: ChannelKey | None = None  # the one that is in it
    authorizer: Authorizer | None = None  # what proves who asks, where no key does
    proof: bytes = b""  # its lines of the head
    trace: RequestTrace | None = None  # of its call, where that is traced

    def took_status(self, status: int) -> None:
        """The upstream has answered with this status."""
        if status in KEY_REFUSALS and self.key is not None:
            self.key.refused(status)

    def took_refusal(self, status: int, members: ErrorMembers) -> bool:
        """The upstream has refused it in these words; whether it was for the key that is in it."""
        if self.key is None:
            return False
        if status in KEY_REFUSALS:  # which `took_status` has counted
            return True
        seconds = self.key.seconds_aside(status, members)
        if seconds:
            self.key.refused(status, seconds)
        return seconds > 0

    def __repr__(self) -> str:
        """Without what may hold a key: headers and query."""
        return f"<UpstreamRequest {self.method} {self.url.partition('?')[0]}>"


class Authorizer(Protocol):
    """Proves to one channel's upstream who asks: by signatures, or by tokens that expire."""

    async def proof(self, request: UpstreamRequest, wire: Wire) -> bytes:
        """The lines of a request's head that prove it, each with its end.

        `wire` is for what has to be fetched. Raises CredentialsUnavailable.
        """

    def may_mend(self, response: UpstreamResponse) -> bool:
        """Whether a request that was answered so may be taken with another proof, and made once
        more: it was refused for its proof alone, and nothing was done for it."""


class Sink(Protocol):
    """Takes the pieces of a body as they come."""

    @property
    def is_over(self) -> bool:
        """Whether it has had enough."""

    def take(self, piece: bytes) -> Future[None] | None:
        """Take a piece. The upstream is not read on before the future is done, if there is one."""


class UpstreamResponse(Protocol):
    """A response whose head is here. The opener closes it, on every way out."""

    @property
    def status(self) -> int: ...

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to come, be it taken or not: there is nothing to wait for."""

    def header(self, name: str) -> str | None:
        """A header's value, by its name in any case."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in the pieces it comes in; not taking them stops the upstream.

        Raises UpstreamCut when the connection is lost before the body's end.
        """

    async def pour(self, sink: Sink) -> None:
        """Give a sink what comes, until it has had enough or the body ends. Raises UpstreamCut.

        What the sink raises is raised. `chunks` gives what is left.
        """
        async for piece in self.chunks():
            keeps_up = sink.take(piece)
            if keeps_up is not None:
                await keeps_up
            if sink.is_over:
                return

    async def read(self, limit: int) -> bytes:
        """The whole body. Raises UpstreamCut, or UpstreamMalformed above `limit` bytes."""

    def close(self) -> None:
        """Break the connection at once, unless the body has come to its end."""


class Wire(Protocol):
    """Opens requests."""

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and wait for the head of its response, without limit of time.

        Raises UpstreamUnreachable (of which CredentialsUnavailable is one), UpstreamCut when the
        connection is lost within the head, and UpstreamMalformed for what is not HTTP. Cancelling
        it closes the connection.
        """

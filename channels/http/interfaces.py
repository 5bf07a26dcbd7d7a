"""The interfaces of an upstream request, its response and its client.

`client.py` implements them; tests have other implementations.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import Struct

from channels.errors import ErrorMembers
from channels.http.request_writer import BodyPieces
from channels.http.transport import Transport
from channels.key_ring import KEY_REFUSALS, THROTTLED, ChannelKey
from metrics.spans import RequestTrace


class Sender(Protocol):
    """Who notes that a request was sent."""

    is_sent: bool


class UpstreamRequest(Struct):
    """One complete request: absolute URL, headers in order, body, and its transport.

    `trace` and `sender` are set by the attempt that sends it.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | BodyPieces
    transport: Transport | None = None  # None: the default
    key: ChannelKey | None = None  # the key that it is sent with
    authorizer: Authorizer | None = None  # proves the identity if no key does
    proof: bytes = b""  # lines of the head made by the authorizer
    trace: RequestTrace | None = None  # of its call, if that is traced
    sender: Sender | None = None  # notes that it is written to a connection

    def took_status(self, status: int) -> None:
        """Report the status of the response to the key."""
        if status in KEY_REFUSALS and self.key is not None:
            self.key.refused(status)

    def took_refusal(
        self, status: int, members: ErrorMembers, retry_after: str | None = None
    ) -> bool:
        """Report a refusal to the key; whether the key was the reason."""
        if self.key is None:
            return False
        if status == THROTTLED:
            self.key.throttled(retry_after)
        if status in KEY_REFUSALS:  # counted by `took_status`
            return True
        seconds = self.key.seconds_aside(status, members)
        if seconds:
            self.key.refused(status, seconds)
        return seconds > 0

    def __repr__(self) -> str:
        """Leave out headers and query, which may hold a key."""
        return f"<UpstreamRequest {self.method} {self.url.partition('?')[0]}>"


class Authorizer(Protocol):
    """Proves the client's identity to one channel's upstream by signatures or expiring tokens."""

    async def proof(self, request: UpstreamRequest, http: UpstreamClient) -> bytes:
        """Return the lines of a request's head that prove it, each with its line end.

        `http` is used for requests of its own. Raises CredentialsUnavailable.
        """

    def may_mend(self, response: UpstreamResponse) -> bool:
        """Whether the request may be repeated with another proof: it was refused for its proof
        alone, and had no effect."""


class Sink(Protocol):
    """Takes the pieces of a body as they are received."""

    @property
    def is_over(self) -> bool:
        """Whether it takes no more pieces."""

    def take(self, piece: bytes) -> Future[None] | None:
        """Take a piece. Reading from the upstream waits for the future, if one is returned."""


class UpstreamResponse(Protocol):
    """A response whose head was received. The opener closes it in every exit path."""

    @property
    def status(self) -> int: ...

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will be received; the rest may be buffered."""

    @property
    def has_proven_end(self) -> bool:
        """Whether the end of the body is told from a loss: by its length, or by its last chunk."""
        return True

    def header(self, name: str) -> str | None:
        """Return the value of a header; its name is case-insensitive."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the pieces of the body; backpressure reaches the upstream.

        Raises UpstreamCut when the connection is lost before the body's end.
        """

    async def pour(self, sink: Sink) -> None:
        """Pass pieces to a sink until it is over or the body ends. Raises UpstreamCut.

        Errors of the sink are raised. `chunks` yields the rest.
        """
        async for piece in self.chunks():
            keeps_up = sink.take(piece)
            if keeps_up is not None:
                await keeps_up
            if sink.is_over:
                return

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raises UpstreamCut, or UpstreamMalformed above `limit` bytes."""

    def close(self) -> None:
        """Abort the connection, unless the body has ended."""


class UpstreamClient(Protocol):
    """Sends requests."""

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        """Send a request and wait for the head of its response, without a timeout.

        Raises UpstreamUnreachable (including CredentialsUnavailable), UpstreamCut when the
        connection is lost within the head, and UpstreamMalformed for anything but HTTP. Cancelling
        it closes the connection.
        """

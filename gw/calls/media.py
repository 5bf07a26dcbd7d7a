"""One call for what is answered at once and sold by the piece, and the attempts to have it made.

An attempt is sent, read to its end, and counted. Nothing here knows Tornado.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from actors.clock import Clock
from actors.router import Candidate
from actors.wallet.messages import CallFacts
from channels.deadlines import TimeLimits
from channels.dialects.table import DIALECTS
from channels.errors import UpstreamError
from channels.http.interfaces import UpstreamRequest, Wire
from channels.redact import Redactor
from channels.registry import ChannelSpec, ModelSpec
from gw.calls.attempt import BaseUpstream
from gw.calls.attempts import Attempts
from gw.calls.bill import Bill
from gw.calls.read_faults import unreadable
from gw.calls.request import ClientRequest
from gw.calls.results import UpstreamRefusal, is_success
from gw.calls.retries import Retry, retry_of_pieces
from gw.idempotency.submission import Submission
from metrics.spans import CallSpan

# An error body is passed on whole. One that is longer is a page, and the client gets ours instead.
ERROR_BYTES_MAX = 1024 * 1024


class MediaBill(Bill, Protocol):
    """Counts the pieces of a response and prices them."""

    @property
    def hold_nano_usd(self) -> int:
        """What the call costs when it brings everything that was asked for."""

    def read(self, body: bytes, *, now: float) -> str | None:
        """Count a whole response of the upstream, which came at `now` (Unix seconds).

        Returns its message where it says that it failed all the same. Raises UpstreamMalformed.
        """


class SyncMediaRequest(ClientRequest):
    """A checked media request."""

    async def upstream_request(self, candidate: Candidate, channel: ChannelSpec) -> UpstreamRequest:
        """What this channel is sent."""
        model = candidate.upstream_model
        body = await self.passthrough_body({"upstream_model": model})
        return DIALECTS[self.protocol].address.request(
            channel, body, protocol=self.protocol, upstream_model=model, stream=False
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaCall:
    """A call that has passed every check except money and channels.

    `content_type` is the response's; None for the one that the upstream states. `cheaper` tells a
    client that is refused for its balance what would cost less. `submission` is there when the
    request has an idempotency key.
    """

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    bill: MediaBill
    cheaper: str
    span: CallSpan
    request: SyncMediaRequest
    started: float  # monotonic seconds
    content_type: str | None = "application/json"
    submission: Submission | None = None
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MediaResult:
    """A response, counted; `failed` is the upstream's message where it says that it failed."""

    http_status: int
    content_type: str
    body: bytes
    failed: str | None


class MediaUpstream(BaseUpstream):
    """Makes the attempts of media calls of one kind. Of its own it has their time."""

    def __init__(
        self,
        *,
        wire: Wire,
        redactor: Callable[[], Redactor],
        clock: Clock,
        attempt_seconds: float,
        response_bytes_max: int,
    ) -> None:
        super().__init__(
            wire=wire, redactor=redactor, clock=clock, response_bytes_max=response_bytes_max
        )
        self._limits = TimeLimits(attempt_seconds)

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_pieces(error)

    async def attempt(
        self, call: MediaCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> MediaResult | UpstreamRefusal:
        """Try one channel, for as long as one attempt may take. Raises UpstreamError."""
        limit = self._limits.begin()
        try:
            with limit:
                return await self._attempt(call, candidate, channel, attempts)
        finally:
            limit.end()

    async def _attempt(
        self, call: MediaCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> MediaResult | UpstreamRefusal:
        request = await call.request.upstream_request(candidate, channel)
        response = await self._open(request, attempts)
        if not is_success(response.status):
            return await self._refusal(
                request, response, bytes_max=ERROR_BYTES_MAX, passes_body=True
            )
        body = await self._whole(response, attempts)
        body = await self._redactor().responses.redact_whole(body, keeps_links=True)
        failed = self._read(call, body)
        content_type = call.content_type or self._content_type(response)
        return MediaResult(response.status, content_type, body, failed)

    def _read(self, call: MediaCall, body: bytes) -> str | None:
        try:
            return call.bill.read(body, now=self._clock.now())
        except UpstreamError:
            raise
        except Exception as error:  # whatever an upstream sends, it is no fault of the call's
            raise unreadable(error) from error

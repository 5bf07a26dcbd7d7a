"""One attempt of a passthrough call: the client's bytes are sent, and the response is counted."""

from __future__ import annotations

from actors.clock import Clock
from actors.routing import Candidate
from channels.deadlines import TimeLimits
from channels.errors import UpstreamError, UpstreamRefusal
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.json.lenient import BYTE_ORDER_MARK
from channels.registry import ChannelSpec
from gw.calls.attempts import Attempts
from gw.calls.base_upstream import BaseUpstream, confirm_key, is_success
from gw.calls.media_calls import Delivery, PieceCall
from gw.calls.retry import Retry, retry_of_pieces
from gw.calls.stream import unreadable
from gw.config.live import LiveConfig

# Bound of error bodies passed through; longer ones are web pages, replaced by our error.
ERROR_BYTES_MAX = 1024 * 1024


class PieceUpstream(BaseUpstream):
    """Makes the attempts of media calls of one kind, each within `attempt_seconds`."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        current: LiveConfig,
        clock: Clock,
        attempt_seconds: float,
        response_bytes_max: int,
    ) -> None:
        super().__init__(
            http=http, current=current, clock=clock, response_bytes_max=response_bytes_max
        )
        self._limits = TimeLimits(attempt_seconds)

    def makes(self, call: PieceCall, candidate: Candidate, channel: ChannelSpec) -> bool:
        """See `MediaUpstream`; channels of the protocol support every request."""
        return True

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_pieces(error)

    async def attempt(
        self, call: PieceCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Delivery | UpstreamRefusal:
        """Try one channel within the time of one attempt. Raises UpstreamError."""
        limit = self._limits.begin()
        try:
            with limit:
                return await self._attempt(call, candidate, channel, attempts)
        finally:
            limit.end()

    async def _attempt(
        self, call: PieceCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Delivery | UpstreamRefusal:
        request = await call.request.upstream_request(candidate, channel)
        response = await self._http.open(attempts.watch(request))
        attempts.took_response(response)
        if not is_success(response.status):
            return await self._refused(request, response)
        body = (await response.read(self._response_bytes_max)).removeprefix(BYTE_ORDER_MARK)
        attempts.took_whole()
        body = await self._current.redactor.responses.redact_whole(body, keeps_links=True)
        failed = await self._read_fairly(call, body)
        confirm_key(request)
        content_type = call.content_type or self._content_type(response)
        if call.render is not None and failed is None:
            body = call.render(body)
        return Delivery(content_type, body, response.status, failed=failed)

    async def _refused(
        self, request: UpstreamRequest, response: UpstreamResponse
    ) -> UpstreamRefusal:
        """Read an error response; the client may receive its body."""
        return await self._refusal(request, response, bytes_max=ERROR_BYTES_MAX, passes_body=True)

    async def _read(self, call: PieceCall, body: bytes) -> str | None:
        """Let the bill read the response; return the failure that it reports, if any."""
        return call.bill.read(body, now=self._clock.now())

    async def _read_fairly(self, call: PieceCall, body: bytes) -> str | None:
        try:
            return await self._read(call, body)
        except UpstreamError:
            raise
        except Exception as error:  # an unreadable response is the upstream's fault
            raise unreadable(error) from error

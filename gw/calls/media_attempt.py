"""One try on one channel for a whole answer: send the request, read the answer to its end.

What comes back is an answer that has been counted or a refusal (4xx); everything that another
channel may do better is raised as UpstreamError. Until then nothing has reached the client.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.clock import Clock
from actors.router import Candidate
from channels.deadlines import TimeLimits
from channels.dialects.error_body import error_members
from channels.errors import ErrorBody, UpstreamError, UpstreamFailed
from channels.http.interfaces import UpstreamResponse, Wire
from channels.redact import Redactor
from channels.registry import ChannelSpec
from gw.calls.answers import Refusal, is_success
from gw.calls.attempts import Attempts
from gw.calls.ending import sendable
from gw.calls.media import MediaCall
from gw.calls.retries import Retry, retry_of_pieces
from gw.calls.unreadable import unreadable

# An error body is passed on whole. One that is longer is a page, and the client gets ours instead.
ERROR_BYTES_MAX = 1024 * 1024
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class MediaAnswer:
    """A whole answer, counted; `failed` is the upstream's message where it says that it failed."""

    http_status: int
    content_type: str
    body: bytes
    failed: str | None


class MediaUpstream:
    """Makes the attempts of media calls of one kind. Of its own it has their time."""

    def __init__(
        self,
        *,
        wire: Wire,
        redactor: Callable[[], Redactor],
        clock: Clock,
        attempt_seconds: float,
        answer_bytes_max: int,
    ) -> None:
        self._limits = TimeLimits(attempt_seconds)
        self._wire = wire
        self._redactor = redactor
        self._clock = clock
        self._answer_bytes_max = answer_bytes_max

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_pieces(error)

    async def attempt(
        self, call: MediaCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> MediaAnswer | Refusal:
        """Try one channel, for as long as one attempt may take. Raises UpstreamError."""
        limit = self._limits.begin()
        try:
            with limit:
                return await self._open(call, candidate, channel, attempts)
        finally:
            limit.end()

    async def _open(
        self, call: MediaCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> MediaAnswer | Refusal:
        request = await call.prepare(candidate, channel)
        response = await self._wire.open(attempts.traced(request))
        attempts.took_response(response)
        if not is_success(response.status):
            return await self._refusal(response)
        body = await response.read(self._answer_bytes_max)
        attempts.took_whole()
        body = await self._redactor().answers.masked_whole(body, keeps_links=True)
        failed = self._read(call, body)
        content_type = call.content_type or self._content_type(response)
        return MediaAnswer(response.status, content_type, body, failed)

    async def _refusal(self, response: UpstreamResponse) -> Refusal:
        status = response.status
        try:
            body = await response.read(ERROR_BYTES_MAX)
        except UpstreamError:
            body = b""  # the status alone has to do
        if response.header("content-encoding") not in (None, "", "identity"):
            body = b""  # which was not asked for, and the client may not have asked for it either
        members = error_members(body)
        body = await self._redactor().errors.masked_whole(body)
        told = ErrorBody(self._content_type(response), body) if body.strip() else None
        retry_after = response.header("retry-after")
        if status >= 500:
            raise UpstreamFailed(status, members, retry_after=retry_after, error_body=told)
        return Refusal(status, members, retry_after, told)

    def _content_type(self, response: UpstreamResponse) -> str:
        return sendable(response.header("content-type"), self._redactor()) or JSON

    def _read(self, call: MediaCall, body: bytes) -> str | None:
        try:
            return call.bill.read(body, now=self._clock.now())
        except UpstreamError:
            raise
        except Exception as error:  # whatever an upstream sends, it is no fault of the call's
            raise unreadable(error) from error

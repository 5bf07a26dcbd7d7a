"""One try on one channel for a whole answer: send the request, read the answer to its end.

What comes back is an answer that has been counted or a refusal (4xx); everything that another
channel may do better is raised as UpstreamError. Until then nothing has reached the client.

What is sold by the piece is made once: an answer that had begun and cannot be used may stand for
pieces that were made and are to be paid for, so no other channel is asked for them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from actors.channel import Lease
from actors.clock import Clock
from actors.router import Candidate
from channels.dialects.error_body import error_members
from channels.errors import UpstreamError, UpstreamUnreachable
from channels.http.interfaces import UpstreamResponse, Wire
from channels.redact import Redactor
from gw.calls.answers import ErrorBody, Refusal, UpstreamFailed, is_success
from gw.calls.attempt import Trying
from gw.calls.ending import sendable
from gw.calls.media import MediaBill, MediaCall
from gw.calls.running import Running
from gw.calls.unreadable import unreadable
from metrics.logs import EventLog

# An error body is passed on whole. One that is longer is a page, and the client gets ours instead.
ERROR_BYTES_MAX = 1024 * 1024
JSON = "application/json"

_LOG = EventLog("gw.calls")


@dataclass(frozen=True, slots=True)
class MediaAnswer:
    """A whole answer, counted; `failed` is the upstream's message where it says that it failed."""

    http_status: int
    content_type: str
    body: bytes
    failed: str | None


class MediaUpstream:
    """Makes attempts."""

    def __init__(
        self,
        *,
        wire: Wire,
        redactor: Callable[[], Redactor],
        clock: Clock,
        answer_bytes_max: int,
    ) -> None:
        self._wire = wire
        self._redactor = redactor
        self._clock = clock
        self._answer_bytes_max = answer_bytes_max

    async def attempt(
        self,
        call: MediaCall,
        candidate: Candidate,
        lease: Lease,
        *,
        deadline: float,
        running: Running[MediaBill],
    ) -> MediaAnswer | Refusal:
        """Try one channel, until `deadline` (loop time) at most. Raises UpstreamError."""
        until = min(deadline, asyncio.get_running_loop().time() + call.attempt_seconds)
        with Trying(running, candidate), _Once(call, candidate):
            async with asyncio.timeout_at(until):
                request = await call.prepare(candidate, lease.spec)
                response = await self._wire.open(running.traced(request))
                running.took_response(response)
                if not is_success(response.status):
                    return await self._refusal(response)
                body = await response.read(self._answer_bytes_max)
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


class _Once:
    """Makes what an attempt raises final, unless it says that nothing was made: 5xx, unreachable.

    The operator is told: the upstream may ask to be paid for what no customer got.
    """

    __slots__ = ("_call", "_candidate")

    def __init__(self, call: MediaCall, candidate: Candidate) -> None:
        self._call = call
        self._candidate = candidate

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(error, UpstreamError):
            return
        if isinstance(error, UpstreamUnreachable | UpstreamFailed):
            return
        error.is_final = True
        _LOG.warning(
            "answer_unusable",
            channel=self._candidate.channel_id,
            request_id=self._call.facts.call_id.hex,
            reason=error.detail or str(error),
        )

"""One attempt to have something made by a media upstream: the exchanges of its dialect, to the end.

What it takes to ask for a film, a song, a voice or a script is the dialect's (`channels/media`);
what the reply means for the call is `retries.py` and `outcome.py`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from actors.clock import Clock
from actors.router import Candidate
from channels.errors import (
    ErrorMembers,
    ErrorReported,
    UpstreamError,
    UpstreamFailed,
    UpstreamMalformed,
    UpstreamTimedOut,
)
from channels.http.interfaces import UpstreamRequest, UpstreamResponse, Wire
from channels.media.dialects import DIALECTS
from channels.media.model import Exchange, MediaDialect, MediaRequest, MediaResponse
from channels.media.perform import perform
from channels.media.replies import Accepted, Done, Failed, Refused, SubmitReply
from channels.media.requests import AvatarRequest, Submission
from channels.media.send import send
from channels.registry import ChannelSpec
from gw.calls.attempts import Attempts
from gw.calls.call import PaidCall
from gw.calls.request import LargeSubmission
from gw.calls.results import UpstreamRefusal
from gw.calls.retries import Retry, retry_of_submits


class SubmitCall(PaidCall, Protocol):
    """A call that has something made."""

    @property
    def request(self) -> Submission:
        """What is asked for."""

    @property
    def large(self) -> LargeSubmission | None:
        """The client's body, where `request` is without it."""

    @property
    def upstream_key(self) -> str:
        """The idempotency key that the upstream gets: the job's id, or the call's."""


@dataclass(frozen=True, slots=True)
class Made:
    """The reply of the channel that took the request."""

    candidate: Candidate
    reply: Accepted | Done


def dialect_of(candidate: Candidate, channel: ChannelSpec) -> MediaDialect:
    """The dialect of a candidate's channel."""
    return DIALECTS[channel.dialect_of(candidate.protocol)]


class ExchangeUpstream:
    """Makes the attempts. Holds no state of its own."""

    def __init__(self, *, wire: Wire, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock

    def __repr__(self) -> str:
        return f"<ExchangeUpstream {self._wire!r}>"

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_submits(error)

    async def attempt(
        self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Made | UpstreamRefusal:
        """Ask one channel. Raises UpstreamError."""
        wire = _WatchedWire(self._wire, attempts)

        async def sent(request: MediaRequest, response_bytes_max: int) -> MediaResponse:
            response = await send(wire, channel, request, response_bytes_max, now=self._clock.now)
            attempts.took_whole()
            return response

        exchange = await _exchange(call, candidate, dialect_of(candidate, channel))
        reply = await perform(exchange, sent, self._clock.sleep)
        if isinstance(reply, Accepted | Done):
            return Made(candidate, reply)
        if isinstance(reply, Refused):
            error = ErrorMembers(reply.message)
            rejected = reply.is_rejected
            return UpstreamRefusal(reply.status, error, reply.retry_after, is_rejected=rejected)
        if isinstance(reply, Failed):
            error = ErrorMembers(reply.message)
            if reply.is_final:
                raise ErrorReported(error)
            raise UpstreamFailed(reply.status, error, retry_after=reply.retry_after)
        raise (UpstreamTimedOut if reply.status == 504 else UpstreamMalformed)(reply.reason)


class _WatchedWire(Wire):
    """Sends the requests of one attempt, and reports them to it."""

    def __init__(self, wire: Wire, attempts: Attempts) -> None:
        self._wire = wire
        self._attempts = attempts

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        response = await self._wire.open(self._attempts.traced(request))
        self._attempts.took_response(response)
        return response


async def _exchange(
    call: SubmitCall, candidate: Candidate, dialect: MediaDialect
) -> Exchange[SubmitReply]:
    key, model = call.upstream_key, candidate.upstream_model
    exchange = dialect.submit(_asked_of(call.request, candidate), idempotency_key=key)
    if call.large is None:
        return exchange
    body = await call.large.body_for(dialect.name, model, idempotency_key=key)
    return dataclasses.replace(exchange, request=replace(exchange.request, body=body))


def _asked_of(request: Submission, candidate: Candidate) -> Submission:
    """The request, with the upstream's name of the model."""
    if isinstance(request, AvatarRequest):
        return request
    return replace(request, model=candidate.upstream_model)

"""One attempt by the exchanges of a media dialect.

The dialect builds the requests for a film, a song, a voice or a script (`channels/media`);
`attempts.py` and `endings.py` decide the consequences of its reply.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from actors.clock import Clock
from actors.routing import Candidate
from channels import errors
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.media import replies, requests
from channels.media.dialects import DIALECTS as MEDIA_DIALECTS
from channels.media.exchanges import perform_with
from channels.media.model import Exchange, MediaDialect
from channels.registry import ChannelSpec
from gw.calls.attempts import Attempts
from gw.calls.media_calls import SubmitCall, SubmitResult
from gw.calls.retry import Retry, retry_of_pieces, retry_of_submits


def dialect_of(candidate: Candidate, channel: ChannelSpec) -> MediaDialect:
    """Return the media dialect of a candidate's channel."""
    return MEDIA_DIALECTS[channel.dialect_of(candidate.protocol)]


class ExchangeUpstream:
    """Makes the attempts of calls by exchanges. Stateless."""

    def __init__(self, *, http: UpstreamClient, body_bytes_max: int, clock: Clock) -> None:
        self._http = http
        self._body_bytes_max = body_bytes_max
        self._clock = clock

    def makes(self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec) -> bool:
        """See `MediaUpstream`."""
        return dialect_of(candidate, channel).makes(call.request)

    def retry(self, error: errors.UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_submits(error)

    async def attempt(
        self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> SubmitResult | errors.UpstreamRefusal:
        """Try one channel. Raises UpstreamError."""
        exchange = await _exchange(call, candidate, dialect_of(candidate, channel))
        reply = await perform_with(
            channel,
            exchange,
            _WatchedClient(self._http, attempts),
            self._clock,
            body_bytes_max=self._body_bytes_max,
        )
        attempts.took_whole()
        if isinstance(reply, replies.Accepted | replies.Done):
            return SubmitResult(candidate, reply)
        if isinstance(reply, replies.Refused):
            error = errors.ErrorMembers(reply.message)
            rejected = reply.is_rejected
            return errors.UpstreamRefusal(
                reply.status, error, reply.retry_after, is_rejected=rejected
            )
        if isinstance(reply, replies.Failed):
            error = errors.ErrorMembers(reply.message)
            if reply.is_final:
                raise errors.ErrorReported(error)
            raise errors.UpstreamFailed(reply.status, error, retry_after=reply.retry_after)
        raise (errors.UpstreamTimedOut if reply.status == 504 else errors.UpstreamMalformed)(
            reply.reason
        )


class _WatchedClient(UpstreamClient):
    """Sends the requests of one attempt, and reports their responses to it."""

    def __init__(self, http: UpstreamClient, attempts: Attempts) -> None:
        self._http = http
        self._attempts = attempts

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        response = await self._http.open(self._attempts.watch(request))
        self._attempts.took_response(response)
        return response


async def _exchange(
    call: SubmitCall, candidate: Candidate, dialect: MediaDialect
) -> Exchange[replies.SubmitReply]:
    key, model = call.upstream_key, candidate.upstream_model
    exchange = dialect.submit(_submission_for(call.request, candidate), idempotency_key=key)
    if call.large is None:
        return exchange
    body = await call.large.body_for(dialect.name, model, idempotency_key=key)
    return dataclasses.replace(exchange, request=replace(exchange.request, body=body))


def _submission_for(request: requests.Submission, candidate: Candidate) -> requests.Submission:
    """Return the request with the upstream's name of the model."""
    if isinstance(request, requests.AvatarRequest):
        return request
    return replace(request, model=candidate.upstream_model)


class SpeechUpstream(ExchangeUpstream):
    """Makes the attempts of synchronous speech."""

    def retry(self, error: errors.UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_pieces(error)

    async def attempt(
        self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> SubmitResult | errors.UpstreamRefusal:
        """Try one channel. Raises UpstreamError, and TimeoutError after its time."""
        try:
            return await super().attempt(call, candidate, channel, attempts)
        except errors.UpstreamCut as error:
            raise errors.UpstreamLost(error.detail) from error
        except (
            errors.UpstreamTimedOut
        ) as error:  # stated by the upstream; our own is a TimeoutError
            raise errors.UpstreamFailed(504, errors.ErrorMembers()) from error

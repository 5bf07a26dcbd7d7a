"""Counts the input tokens of a request: free, without a hold and without a row.

A channel of the client's protocol counts, with failover as for chat, at most three attempts; its
refusal is the client's. If none can (the model is only reached by translation, the upstream has no
such endpoint, none is available or promises what is demanded for data), the count is estimated. An
upstream without the endpoint is skipped for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from actors.channel_directory import ChannelDirectory
from actors.circuit_breaker import Verdict
from actors.clock import Clock
from actors.failover import Failover, FailoverExhausted
from actors.mailbox import ActorStopped
from actors.routing import Candidate, candidates
from channels import errors
from channels.data_promise import DataDemand
from channels.dialects.counting import counted_body
from channels.dialects.error_body import error_members
from channels.dialects.table import counting_of
from channels.dialects.token_estimate import estimate
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.registry import PLAIN, ChannelSpec, ModelSpec
from gw.calls.base_upstream import confirm_key, is_success
from gw.calls.endings import ending_of_refusal
from gw.config.live import LiveConfig
from gw.error_bodies import dumps

# Time of all attempts of one count; agents wait for it before each call.
COUNT_SECONDS = 15.0
# How long an upstream without the endpoint is skipped.
WITHOUT_SECONDS = 600.0
# The statuses of a missing endpoint: unknown path, unknown method, not implemented.
WITHOUT_STATUSES = (404, 405, 501)
# Bound of the response of a count, which has a few hundred bytes.
COUNT_BYTES_MAX = 64 * 1024


class OfBody(Protocol):
    """Runs a job on the client's body, here or in a helper process. Raises GatewayError."""

    async def __call__(self, job: Callable[..., Any], *arguments: Any) -> tuple[Any, bytes | None]:
        """Return the result of the job."""


class CountRequest(Struct, frozen=True, kw_only=True):
    """A request to be counted. `own` and `own_headers` are as in `ChatClientRequest`."""

    protocol: str
    model: ModelSpec
    demand: DataDemand | None
    of_body: OfBody
    own: Mapping[str, str]
    own_headers: tuple[tuple[str, str], ...]


class Count(Struct, frozen=True):
    """The response to the client."""

    body: bytes
    is_estimate: bool


class TokenCounter:
    """Counts requests. One per process; it remembers the upstreams without the endpoint.

    Their number is bounded by that of channels and protocols.
    """

    def __init__(
        self, *, channels: ChannelDirectory, http: UpstreamClient, current: LiveConfig, clock: Clock
    ) -> None:
        self._channels = channels
        self._http = http
        self._current = current
        self._clock = clock
        self._without: dict[tuple[str, str], float] = {}  # end of the skip, monotonic seconds

    async def count(self, request: CountRequest) -> Count:
        """Return an upstream's count or an estimate. Raises GatewayError for its refusal."""
        found = [
            one
            for one in candidates(request.model, request.protocol, self._channels)
            if self._may_ask(one)
        ]
        if found:
            try:
                async with asyncio.timeout(COUNT_SECONDS):
                    body = await self._counted(
                        request, Failover(found, self._channels, request.demand)
                    )
            except (FailoverExhausted, TimeoutError, ActorStopped):
                body = None
            if body is not None:
                return Count(body, is_estimate=False)
        tokens, _ = await request.of_body(estimate, request.protocol)
        counting = counting_of(request.protocol)
        return Count(dumps({**counting.rest, counting.member: tokens}), is_estimate=True)

    def _may_ask(self, candidate: Candidate) -> bool:
        """Whether the channel speaks the protocol natively, and may have the endpoint."""
        spec = self._channels[candidate.channel_id].spec
        if spec.wire.get(candidate.protocol, PLAIN) != PLAIN:
            return False
        until = self._without.get((candidate.channel_id, candidate.protocol))
        return until is None or until <= self._clock.monotonic()

    async def _counted(self, request: CountRequest, failover: Failover) -> bytes | None:
        """Return a channel's count; None if it has no endpoint. Raises FailoverExhausted."""
        while True:
            candidate, lease = failover.lease()
            began, started_at = self._clock.monotonic(), self._clock.now()
            verdict: Verdict = "abandoned"
            try:
                body = await self._attempt(request, candidate, lease.spec)
                verdict = "success"
                return body
            except errors.UpstreamError as error:
                # A count proves nothing about calls, except that none can connect.
                if type(error) is errors.UpstreamUnreachable:
                    verdict = "failure"
                seconds = self._clock.monotonic() - began
                failover.add_failed(candidate, error, started_at=started_at, seconds=seconds)
            finally:
                lease.release(verdict)

    async def _attempt(
        self, request: CountRequest, candidate: Candidate, channel: ChannelSpec
    ) -> bytes | None:
        """Try one channel. Raises UpstreamError, and GatewayError for the client."""
        _, body = await request.of_body(counted_body, candidate.upstream_model)
        assert body is not None
        asked = counting_of(request.protocol).address.request(
            channel,
            body,
            protocol=candidate.protocol,
            upstream_model=candidate.upstream_model,
            stream=False,
            own=request.own,
            extra_headers=request.own_headers,
        )
        response = await self._http.open(asked)
        try:
            return await self._read(asked, response, candidate)
        finally:
            response.close()

    async def _read(
        self, asked: UpstreamRequest, response: UpstreamResponse, candidate: Candidate
    ) -> bytes | None:
        status = response.status
        if is_success(status):
            body = await response.read(COUNT_BYTES_MAX)
            confirm_key(asked)
            return await self._current.redactor.responses.redact_whole(body)
        if status in WITHOUT_STATUSES:
            self._has_none(candidate)
            return None
        members = error_members(await response.read(COUNT_BYTES_MAX))
        asked.took_status(status)
        retry_after = response.header("retry-after")
        if status >= 500:
            raise errors.UpstreamFailed(status, members, retry_after=retry_after)
        if asked.took_refusal(status, members, retry_after):
            raise errors.CredentialsRefused(status, members, retry_after=retry_after)
        ending = ending_of_refusal(
            errors.UpstreamRefusal(status, members, retry_after), self._current.redactor
        )
        assert ending.error is not None
        raise ending.error

    def _has_none(self, candidate: Candidate) -> None:
        """Record an upstream without the endpoint, and drop removed channels."""
        for known in [one for one in self._without if one[0] not in self._channels]:
            del self._without[known]
        until = self._clock.monotonic() + WITHOUT_SECONDS
        self._without[candidate.channel_id, candidate.protocol] = until

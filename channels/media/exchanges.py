"""Performs exchanges with channels over HTTP.

The channel's address and credentials are added here; dialects know neither. The caller manages
time, slots and channels.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar
from urllib.parse import urlencode

from channels.authorizers.authorizers import authorizer_of
from channels.credentials import Credentials, bearer, credentials_of
from channels.errors import UpstreamError, UpstreamMalformed
from channels.exact_redaction import ExactRedaction
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.media.model import Exchange, MediaRequest, MediaResponse
from channels.redaction import redaction_of
from channels.registry import ChannelSpec

# The headers of a response that dialects read.
HEADERS_READ = ("content-type", "retry-after")


def addressed(channel: ChannelSpec, request: MediaRequest) -> UpstreamRequest:
    """Return the request with the channel's address and credentials."""
    credentials: Credentials | None = channel.derived.get(addressed)
    if credentials is None:
        credentials = channel.derived[addressed] = credentials_of(channel, bearer, channel.api_key)
    url = f"{channel.base_url}{request.path}"
    if request.query:
        url = f"{url}?{urlencode(request.query)}"
    headers = (*credentials.key_headers, *credentials.others(request.headers), *credentials.fixed)
    if request.body:
        headers = (*headers, ("Content-Type", "application/json"))
    url = credentials.url(url)
    key = channel.ring.keys[0]  # the others do not know its tasks
    return UpstreamRequest(
        request.method,
        url,
        headers,
        request.body,
        channel.transport,
        key,
        authorizer_of(channel),
    )


async def send(
    http: UpstreamClient,
    channel: ChannelSpec,
    request: MediaRequest,
    response_bytes_max: int,
    *,
    now: Callable[[], float],
) -> MediaResponse:
    """Send a request and read its whole response, with the channel's secrets redacted.

    A longer response is cut off.

    Raises UpstreamUnreachable and UpstreamCut. Cancelling it closes the connection.
    """
    sent = addressed(channel, request)
    response = await http.open(sent)
    if response.status >= 400:
        sent.took_status(response.status)
    try:
        is_cut_off = False
        redaction = redaction_of(channel)
        try:
            body = await redaction.redact_whole(await response.read(response_bytes_max))
        except UpstreamMalformed:
            body, is_cut_off = b"", True
        return MediaResponse(
            status=response.status,
            headers=_read(response, redaction),
            body=body,
            received_at=now(),
            is_cut_off=is_cut_off,
        )
    finally:
        response.close()


def _read(response: UpstreamResponse, redaction: ExactRedaction) -> dict[str, str]:
    found = {name: response.header(name) for name in HEADERS_READ}
    return {
        name: redaction.redacted_text(value) for name, value in found.items() if value is not None
    }


R = TypeVar("R")


class Clock(Protocol):
    """The time of responses and of pauses."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float, /) -> None: ...


async def perform_with(
    channel: ChannelSpec,
    exchange: Exchange[R],
    http: UpstreamClient,
    clock: Clock,
    *,
    body_bytes_max: int,
) -> R:
    """Perform an exchange with a channel. Raises like `send` and `perform`."""

    async def sent(request: MediaRequest, response_bytes_max: int) -> MediaResponse:
        return await send(http, channel, request, response_bytes_max, now=clock.now)

    return await perform(exchange, sent, clock.sleep, body_bytes_max=body_bytes_max)


async def perform(
    exchange: Exchange[R],
    send: Callable[[MediaRequest, int], Awaitable[MediaResponse]],
    sleep: Callable[[float], Awaitable[None]],
    *,
    body_bytes_max: int,
) -> R:
    """Return the reply, after as many requests as it takes; the caller limits the time.

    `send` gets a request and the maximum size of its response, `body_bytes_max` if the exchange
    sets none; its errors are raised, except an UpstreamError of an exchange that repeats.
    """
    while True:
        if exchange.after_seconds:
            await sleep(exchange.after_seconds)
        try:
            bytes_max = exchange.response_bytes_max
            response = await send(
                exchange.request, body_bytes_max if bytes_max is None else bytes_max
            )
        except UpstreamError:
            if not exchange.repeats:
                raise
            continue
        outcome = exchange.read(response)
        if not isinstance(outcome, Exchange):
            return outcome
        exchange = outcome

"""Make an exchange to its end, with the caller's way to send and to wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from channels.errors import UpstreamError
from channels.media.model import Exchange, MediaRequest, MediaResponse

R = TypeVar("R")


async def perform(
    exchange: Exchange[R],
    send: Callable[[MediaRequest, int], Awaitable[MediaResponse]],
    sleep: Callable[[float], Awaitable[None]],
) -> R:
    """The reply, after as many requests as it takes; the caller limits the time.

    `send` gets a request and how many bytes of its response to read; what it raises is raised,
    except an UpstreamError where the exchange repeats.
    """
    while True:
        if exchange.after_seconds:
            await sleep(exchange.after_seconds)
        try:
            response = await send(exchange.request, exchange.response_bytes_max)
        except UpstreamError:
            if not exchange.repeats:
                raise
            continue
        outcome = exchange.read(response)
        if not isinstance(outcome, Exchange):
            return outcome
        exchange = outcome

"""Whether another channel may be tried after a failed attempt, by the kind of call.

    an attempt ends with                        chat           sold by the piece   submitted
    no connection                               next channel   next channel        next channel
    no event (whole: no head) in time           next channel   -                   -
    lost after the request was sent             next channel   next channel        unknown
    5xx                                         next channel   next channel        next channel
    429 that may be tried elsewhere, once       next channel   next channel        final
    504                                         next channel   next channel        unknown
    an unusable response, or a cut one          next channel   unknown             unknown
    a response that reports failed work         next channel   unknown             final
    3xx, 204 or another unusable status         final          unknown             unknown
    no response in time                         final          final               unknown

A chat call can be repeated: its response costs nothing until it is read. Pieces are made once:
after an unusable response some may have been made and billed, and no other channel makes them
again. A submission (a film, a song, a voice, a script) is billed once the upstream has accepted
it: where it may have, nothing is sent again.

A refusal (4xx) goes to the client and is no failed attempt, except on chat a refusal of the
channel's own key, which counts like a 5xx, and once a call a 429 of a channel with `on_429: next`
(`Throttled`). After a trial (`Failover`) the next channel is always tried.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from channels import errors

# `unknown`: the upstream may have done the work, so nothing is sent again; the operator is warned,
# because it may bill a result that no client received.
Retry = Literal["next_channel", "final", "unknown"]

# How a response is lost whose request was sent: its upstream may bill it.
LOST_RESPONSES = (
    errors.UpstreamMalformed,
    errors.UpstreamCut,
    errors.UpstreamLost,
    errors.UpstreamSilent,
    asyncio.CancelledError,
)


def retry_of_chat(error: errors.UpstreamError) -> Retry:
    """After a failed attempt of a chat call."""
    is_final = isinstance(error, errors.UpstreamTimedOut | errors.UnexpectedStatus)
    return "final" if is_final else "next_channel"


def retry_of_pieces(error: errors.UpstreamError) -> Retry:
    """After a failed attempt of a call that is sold by the piece."""
    if isinstance(error, errors.UpstreamUnreachable | errors.UpstreamFailed):
        return "next_channel"
    return "final" if isinstance(error, errors.UpstreamTimedOut) else "unknown"


def retry_of_submits(error: errors.UpstreamError) -> Retry:
    """After a failed attempt to have something made (reference 7.2)."""
    if isinstance(error, errors.ErrorReported | errors.Throttled):
        return "final"
    if isinstance(error, errors.UpstreamFailed):
        return "unknown" if error.status == 504 else "next_channel"
    is_unsent = isinstance(error, errors.UpstreamUnreachable) and not isinstance(
        error, errors.UpstreamLost
    )
    return "next_channel" if is_unsent else "unknown"

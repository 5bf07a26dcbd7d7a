"""Whether another channel may be asked after an attempt has failed, by the kind of call.

    an attempt ends with                        chat           sold by the piece   submitted
    no connection                               next channel   next channel        next channel
    lost after the request was sent             next channel   next channel        unknown
    5xx                                         next channel   next channel        next channel
    504                                         next channel   next channel        unknown
    a response that cannot be used, or was cut   next channel   unknown             unknown
    a response that says it failed at the work   next channel   unknown             final
    3xx, 204 or another status of no use        final          unknown             unknown
    no response in time                           final          final               unknown

What comes of a chat call costs nothing until it is read, so it may be asked for again. What is sold
by the piece is made once: after a response that had begun and cannot be used, pieces may have been
made that are to be paid for, and no other channel makes them again. What is submitted to be made
(a film, a song, a voice, a script) is paid for once the upstream has taken it, whoever hears of it:
wherever it may have, nothing is sent again.
"""

from __future__ import annotations

from typing import Literal

from channels.errors import (
    ErrorReported,
    UnexpectedStatus,
    UpstreamError,
    UpstreamFailed,
    UpstreamLost,
    UpstreamTimedOut,
    UpstreamUnreachable,
)

# `unknown`: the upstream may have done what was asked, so nothing is sent again; the operator is
# told, because it may ask to be paid for what no client got.
Retry = Literal["next_channel", "final", "unknown"]


def retry_of_chat(error: UpstreamError) -> Retry:
    """After a failed attempt of a chat call."""
    is_final = isinstance(error, UpstreamTimedOut | UnexpectedStatus)
    return "final" if is_final else "next_channel"


def retry_of_pieces(error: UpstreamError) -> Retry:
    """After a failed attempt of a call that is sold by the piece."""
    if isinstance(error, UpstreamUnreachable | UpstreamFailed):
        return "next_channel"
    return "final" if isinstance(error, UpstreamTimedOut) else "unknown"


def retry_of_submits(error: UpstreamError) -> Retry:
    """After a failed attempt to have something made (contract for media §2)."""
    if isinstance(error, ErrorReported):
        return "final"
    if isinstance(error, UpstreamFailed):
        return "unknown" if error.status == 504 else "next_channel"
    is_unsent = isinstance(error, UpstreamUnreachable) and not isinstance(error, UpstreamLost)
    return "next_channel" if is_unsent else "unknown"

"""Signs of life for clients of streams whose upstreams are silent: proxies in between cut silence.

One timer looks at all streams of a process once a second. A stream's writes only reset a number, so
that thousands of streams cost next to nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import ceil
from typing import Protocol

from channels.dialects.table import CHAT_DIALECTS
from gw.calls.attempts import Attempts
from gw.calls.call import ClientGone, ResponseWriter
from gw.calls.stream_events import Framing

TICK_SECONDS = 1.0
# A comment of server-sent events, which readers of any protocol skip.
COMMENT = b": keep-alive\n\n"


class Stream(Protocol):
    """A stream that can give a sign of life. `quiet_ticks`: ticks since its last write."""

    quiet_ticks: int

    def speak(self) -> None:
        """Send a sign of life, unless the stream is about to end or its client does not read."""


class KeepAlives:
    """The streams of a process, and the timer that they share."""

    def __init__(self) -> None:
        self._ticks: dict[Stream, int] = {}  # of silence until a sign of life
        self._timer: asyncio.TimerHandle | None = None

    def watch_stream(self, stream: Stream, seconds: float) -> None:
        """Let a stream speak after so many seconds of silence, up to a tick later; 0: never."""
        if seconds:
            stream.quiet_ticks = 0
            self._ticks[stream] = ceil(seconds / TICK_SECONDS)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def forget_stream(self, stream: Stream) -> None:
        """The stream has ended, or was never begun."""
        self._ticks.pop(stream, None)

    def _tick(self) -> None:
        self._timer = None
        silent = []
        for stream, ticks in self._ticks.items():
            stream.quiet_ticks += 1
            if stream.quiet_ticks > ticks:
                silent.append(stream)
        for stream in silent:
            stream.quiet_ticks = 0
            stream.speak()
        if self._ticks:
            self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)


def sign_of_life(protocol: str, framing: Framing) -> bytes:
    """Return what a client of this protocol skips; nothing where it has no such bytes."""
    if not framing.keeps_events:
        return b""
    codec = CHAT_DIALECTS[protocol].codec
    return COMMENT if codec is None else codec.keep_alive


class EarlyHead:
    """Begins the response of a stream before its answer: no other channel is tried then.

    It does so with the events that are kept back until the answer begins; where the upstream has
    sent none, with a sign of life if `precedes_events`.
    """

    __slots__ = (
        "_attempts",
        "_content_type",
        "_precedes_events",
        "_sign",
        "_writer",
        "has_begun",
        "quiet_ticks",
    )

    def __init__(
        self,
        attempts: Attempts,
        writer: ResponseWriter,
        content_type: str,
        sign: bytes,
        *,
        precedes_events: bool,
    ) -> None:
        self._attempts = attempts
        self._precedes_events = precedes_events
        self._writer = writer
        self._content_type = content_type
        self._sign = sign
        self.has_begun = False
        self.quiet_ticks = 0

    def speak(self) -> None:
        """See Stream."""
        written = self._sign
        if not self.has_begun:
            stream = self._attempts.stream
            if not (self._precedes_events or (stream is not None and stream.keeps_events)):
                return
            headers = self._attempts.commit()
            if headers is None:  # no channel was asked yet
                return
            self.has_begun = True
            self._writer.begin(self._content_type, headers)
            if stream is not None:
                written = stream.release() or written
        with suppress(ClientGone):  # its call is being cancelled
            self._writer.write(written)

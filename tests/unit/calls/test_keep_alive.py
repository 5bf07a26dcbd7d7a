"""Streams whose upstreams are silent speak, on one timer; nothing else of them changes."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from gw.calls.call import ClientGone
from gw.calls.keep_alive import COMMENT, TICK_SECONDS, EarlyHead, KeepAlives, sign_of_life
from gw.calls.stream_events import SseFraming
from tests.support.aio import jump
from tests.support.rows import cases


class Stream:
    """One that counts how often it had to speak."""

    quiet_ticks = 0
    spoken = 0

    def speak(self) -> None:
        self.spoken += 1


async def ticks(count: int) -> None:
    """So many ticks pass."""
    for _ in range(count):
        jump(TICK_SECONDS)
        for _ in range(5):
            await asyncio.sleep(0.001)


async def test_stream_speaks_after_its_silence_and_again_after_as_much() -> None:
    keep_alives, stream, other = KeepAlives(), Stream(), Stream()
    keep_alives.watch_stream(stream, 3)
    keep_alives.watch_stream(other, 0)  # never
    await ticks(3)
    assert stream.spoken == 0
    await ticks(1)
    assert stream.spoken == 1
    await ticks(2)
    stream.quiet_ticks = 0  # it has sent something
    await ticks(3)
    assert stream.spoken == 1
    await ticks(1)
    assert (stream.spoken, other.spoken) == (2, 0)
    keep_alives.forget_stream(stream)
    await ticks(5)
    assert stream.spoken == 2
    assert keep_alives._timer is None
    keep_alives.watch_stream(other, 1)
    await ticks(2)
    assert other.spoken == 1
    keep_alives.forget_stream(other)


@cases(
    "protocol, sign",
    ("chat", COMMENT),
    ("responses", COMMENT),
    ("messages", b'event: ping\ndata: {"type":"ping"}\n\n'),
    ("native", b"\n"),
)
def test_sign_of_life_is_what_readers_of_the_protocol_skip(protocol: str, sign: bytes) -> None:
    assert sign_of_life(protocol, SseFraming()) == sign


class EarlyStream:
    """A stream that keeps its first events back."""

    kept = b"event: message_start\n\n"

    @property
    def keeps_events(self) -> bool:
        return bool(self.kept)

    def release(self) -> bytes:
        kept, self.kept = self.kept, b""
        return kept


class Attempts:
    """Attempts of a call that may have got as far as a channel."""

    headers: Mapping[str, str] | None = None
    stream: EarlyStream | None = None
    commits = 0

    def commit(self) -> Mapping[str, str] | None:
        self.commits += self.headers is not None
        return self.headers


class Writer:
    """What a client has received."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, Mapping[str, str]]] = []
        self.sent = b""
        self.is_gone = False

    def begin(self, content_type: str, headers: Mapping[str, str]) -> None:
        self.begun.append((content_type, headers))

    def write(self, block: bytes) -> None:
        if self.is_gone:
            raise ClientGone
        self.sent += block


def early_head(attempts: Attempts, writer: Writer, *, precedes_events: bool) -> EarlyHead:
    """The early head of a call that sends comments."""
    return EarlyHead(
        cast(Any, attempts),
        cast(Any, writer),
        "text/event-stream",
        COMMENT,
        precedes_events=precedes_events,
    )


def test_early_head_is_sent_once_a_channel_was_tried_and_commits_the_call_to_it() -> None:
    attempts, writer = Attempts(), Writer()
    early = early_head(attempts, writer, precedes_events=True)
    early.speak()
    assert (early.has_begun, writer.begun, attempts.commits) == (False, [], 0)
    attempts.headers = {"X-A": "b"}
    for _ in range(2):
        early.speak()
    assert writer.begun == [("text/event-stream", {"X-A": "b"})]
    assert (writer.sent, attempts.commits) == (2 * COMMENT, 1)
    writer.is_gone = True
    early.speak()


@cases("precedes_events", False, True)
def test_early_head_goes_out_with_the_events_that_are_kept_back(precedes_events: bool) -> None:
    attempts, writer, stream = Attempts(), Writer(), EarlyStream()
    attempts.headers = {}
    early = early_head(attempts, writer, precedes_events=precedes_events)
    if not precedes_events:
        early.speak()
        assert not early.has_begun
    attempts.stream = stream
    early.speak()
    early.speak()
    assert (writer.sent, attempts.commits) == (EarlyStream.kept + COMMENT, 1)

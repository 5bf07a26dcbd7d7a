"""While an upstream has nothing to say to a translated client, its connection is not silent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.dialects.table import CHAT_DIALECTS
from channels.http.sse import SseSplitter
from channels.translation.model import Protocol
from channels.translation.session import TRANSLATIONS, TranslatedCall
from gw.api.chat import ArrayStream
from gw.calls.stream import SILENCE_SECONDS, Framing, SseFraming, TranslatedFraming
from tests.support.clock import FakeClock
from tests.unit.calls import sse
from tests.unit.translation.test_odd_values import BODIES

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
COMMENT = b": keep-alive\n\n"
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
SAYS: dict[Protocol, bytes] = {"chat": sse.delta("Hi"), "messages": sse.event(TEXT)}
THOUGHT = sse.event({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]})


class Client:
    """What a client of one translation is sent, at the times that a test says."""

    def __init__(
        self, client: Protocol, upstream: Protocol, framing: Framing | None = None
    ) -> None:
        self.clock = FakeClock()
        call = TranslatedCall(TRANSLATIONS[client, upstream], BODIES[client][0], redact=str)
        dialect = CHAT_DIALECTS[upstream]
        self._meter = dialect.new_meter()
        self._splitter = SseSplitter()
        self._framing = TranslatedFraming(
            call.stream(id="a", created=1, model="m", include_usage=True),
            framing or SseFraming(),
            self._meter,
            has_terminator=dialect.has_terminator,
            monotonic=self.clock.monotonic,
        )

    def gets(self, sent: bytes, *, after: float = 0.0) -> bytes:
        """What these bytes of the upstream's become, so many seconds later."""
        self.clock.advance(after)
        written = []
        for event in self._splitter.feed(sent):
            if event.data is None:
                written.append(self._framing.event(event))
            else:
                read = self._meter.read(event.data)
                self._meter.take(read)
                written.append(self._framing.take(read))
        return b"".join(written)


@pytest.mark.parametrize(
    ("client", "upstream", "silence", "expected"),
    [
        ("chat", "messages", PING, COMMENT),
        ("messages", "chat", COMMENT, PING),
        ("messages", "chat", THOUGHT, PING),
        ("native", "chat", COMMENT, b""),
        ("native", "messages", PING, b""),
    ],
)
def test_client_is_told_after_a_silence_that_the_answer_goes_on(
    client: Protocol, upstream: Protocol, silence: bytes, expected: bytes
) -> None:
    told = Client(client, upstream)
    assert b"Hi" in told.gets(SAYS[upstream])
    assert told.gets(silence, after=SILENCE_SECONDS - 1) == b""
    assert told.gets(silence, after=1) == expected
    assert told.gets(silence, after=SILENCE_SECONDS - 1) == b""
    assert told.gets(silence, after=1) == expected
    # What is said counts as well.
    assert b"Hi" in told.gets(SAYS[upstream], after=5)
    assert told.gets(silence, after=SILENCE_SECONDS - 1) == b""


def test_nothing_is_sent_before_the_answer_begins() -> None:
    """It would commit the call to this channel (spec: retried on another one)."""
    assert Client("messages", "chat").gets(COMMENT, after=100) == b""


def test_nothing_follows_an_error() -> None:
    told = Client("messages", "chat")
    told.gets(SAYS["chat"])
    assert b"event: error" in told.gets(sse.error_event())
    assert told.gets(COMMENT, after=100) == b""


def test_array_holds_elements_only() -> None:
    told = Client("native", "chat", ArrayStream())
    begun = told.gets(SAYS["chat"])
    assert told.gets(COMMENT, after=100) == b""
    found: Any = json.loads(begun + b"]")
    assert found[0]["candidates"]

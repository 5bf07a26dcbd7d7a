"""Whole translated calls: every transcript of a dialect, for each kind of client it may have.

What a call costs and how it ends does not depend on the translation; what the client gets ends as
its own protocol says, or not at all. Recordings of real providers are an extra where they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from channels.dialects.meter import ResponseMeter
from channels.dialects.table import CHAT_DIALECTS
from channels.http.interfaces import UpstreamRequest
from channels.http.sse import SseEvent, SseSplitter
from channels.translation.session import TRANSLATIONS, TranslatedCall, Translation
from gw.api.chat import ArrayStream
from gw.calls.request import UpstreamPlan
from gw.calls.stream import Framing, SseFraming
from tests.support.aio import run
from tests.support.rows import each
from tests.unit.calls.fake_wire import answer
from tests.unit.calls.world import Told, world
from tests.unit.channels.recordings import stream_of, streams
from tests.unit.channels.replay import new_meter

TRANSCRIPTS = Path(__file__).parents[1] / "channels" / "transcripts"
BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
    "messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "native": {"contents": [{"parts": [{"text": "Hi"}]}]},
    "responses": {"model": "m", "input": "Hi"},
}
ENDS = {"chat": b"data: [DONE]\n\n", "messages": b'data: {"type":"message_stop"}\n\n'}
CASES = [
    (translation, path)
    for translation in TRANSLATIONS.values()
    for path in (
        *sorted((TRANSCRIPTS / translation.upstream).glob("*.sse")),
        *streams(translation.upstream),
    )
]


def upstream_bytes(protocol: str, path: Path) -> bytes:
    """What the upstream sends; the recordings of chat lack their terminator."""
    stream = stream_of(path)
    is_recorded = path.name.endswith(".chunks.txt")
    return stream + b"data: [DONE]\n\n" if is_recorded and protocol == "chat" else stream


def read_by_meter(protocol: str, stream: bytes) -> ResponseMeter[Any, Any]:
    """What the upstream's own dialect says of the stream, read in one piece."""
    dialect, meter, splitter = CHAT_DIALECTS[protocol], new_meter(protocol), SseSplitter()
    whole = splitter.feed(stream)
    rest = [event for event in splitter.feed(b"\n\n") if event.data and dialect.ends(event.data)]
    for event in (*whole, *rest):
        if event.data is not None and not (meter.finished and dialect.has_terminator):
            meter.event(event.data)
    return meter


def translated(translation: Translation, request: UpstreamRequest) -> UpstreamPlan:
    call = TranslatedCall(translation, BODIES[translation.client], redact=str)
    call.upstream_body(model="m", stream=True, max_tokens=9)
    return UpstreamPlan(request, CHAT_DIALECTS[translation.upstream], call)


def ended_well(client: str, sent: bytes, *, is_array: bool) -> bool:
    """Whether the client was told in its own way that the answer is whole."""
    if client == "responses":
        found = events(sent)
        last = json.loads(found[-1].data or b"") if found else {}
        return last.get("type") in ("response.completed", "response.incomplete")
    if client != "native":
        return sent.endswith(ENDS[client])
    if is_array and not sent.endswith(b"]"):
        return False
    chunks = json.loads(sent) if is_array else [json.loads(e.data or b"") for e in events(sent)]
    return bool(chunks) and "finishReason" in json.dumps(chunks[-1])


def events(sent: bytes) -> list[SseEvent]:
    return [event for event in SseSplitter().feed(sent) if event.data is not None]


def check(told: Told, meter: ResponseMeter[Any, Any], client: str, *, is_array: bool) -> None:
    """The row is the meter's; the client's stream ended as the upstream's did."""
    sent = told.writer.sent
    is_good = meter.finished and meter.error_seen is None
    assert told.status == (("success", None) if is_good else ("error", told.status[1]))
    if is_good and meter.usage is not None:
        usage = meter.usage
        assert told.tokens == (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    if told.error is not None:
        assert not is_good
        assert sent == b""  # nothing had been sent: an HTTP error says it
    else:
        assert ended_well(client, sent, is_array=is_array) is is_good
    if not is_good:
        assert b'finish_reason":"' not in sent
        assert b"finishReason" not in sent
        assert not (is_array and sent.endswith(b"]"))


@each("translation, path", CASES)
def test_translated_stream_is_charged_and_ends_as_the_upstreams(
    translation: Translation, path: Path, expect_log: Callable[..., None]
) -> None:
    expect_log("usage_unpriced", required=False)  # tools and images in some recordings
    stream = upstream_bytes(translation.upstream, path)
    meter = read_by_meter(translation.upstream, stream)

    async def main(size: int, framing: Framing) -> None:
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        async with world(a=[answer(*pieces)]) as w:
            told = await w.call(
                stream=True,
                usage=True,
                framing=framing,
                plan=lambda request: translated(translation, request),
            )
            is_array = not framing.keeps_events
            check(told, meter, translation.client, is_array=is_array)

    for size in (7, max(1, len(stream))):
        run(main(size, SseFraming()))
    if translation.client == "native":
        run(main(64, ArrayStream()))

"""What a translated response states of the parts of a usage: all that its protocol can."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from channels.dialects.meter import Usage, UsageParts
from channels.dialects.table import CHAT_DIALECTS
from channels.http.sse import SseSplitter
from channels.translation.model import (
    Began,
    Ended,
    Event,
    Finished,
    Response,
    Text,
    TextDelta,
    UsageStated,
)
from tests.unit.channels.replay import new_meter

PARTS = UsageParts(
    cache_write_1h_tokens=5,
    audio_input_tokens=30,
    cached_audio_tokens=20,
    image_input_tokens=9,
    cached_image_tokens=4,
    audio_output_tokens=7,
    image_output_tokens=3,
    web_searches=2,
    service_tier="priority",
)
USAGE = Usage(
    input_tokens=200,
    output_tokens=50,
    cached_tokens=60,
    cache_write_tokens=15,
    reasoning_tokens=10,
    parts=PARTS,
)
KEPT = {
    "chat": USAGE,
    "responses": USAGE,
    "messages": replace(
        USAGE,
        parts=UsageParts(cache_write_1h_tokens=5, web_searches=2, service_tier="priority"),
    ),
    "native": replace(
        USAGE,
        cache_write_tokens=0,
        parts=replace(PARTS, cache_write_1h_tokens=0, web_searches=0),
    ),
}
EVENTS: list[Event] = [
    Began("1", "m"),
    TextDelta("x"),
    UsageStated(USAGE),
    Finished("stop"),
    Ended(),
]


@pytest.mark.parametrize("protocol", KEPT)
def test_parts_are_stated_as_far_as_the_protocol_has_words(protocol: str) -> None:
    codec = CHAT_DIALECTS[protocol].codec
    assert codec is not None
    response = Response(id="1", model="m", parts=(Text("x"),), finish="stop", usage=USAGE)
    meter = new_meter(protocol)
    meter.body(codec.encode_response(response, id="1", created=1, model="m"))
    assert meter.usage == KEPT[protocol]
    encoder = codec.StreamEncoder(id="1", created=1, model="m", include_usage=True)
    stream = b"".join(encoder.encode(event) for event in EVENTS)
    meter = new_meter(protocol)
    for event in SseSplitter().feed(stream):
        if event.data is not None:
            meter.event(event.data)
    assert meter.usage == KEPT[protocol]


def test_fast_service_of_messages_is_its_speed() -> None:
    codec = CHAT_DIALECTS["messages"].codec
    assert codec is not None
    usage = replace(USAGE, parts=UsageParts(service_tier="fast"))
    response = Response(id="1", model="m", parts=(), finish="stop", usage=usage)
    body = codec.encode_response(response, id="1", created=1, model="m")
    assert b'"speed":"fast"' in body
    meter = new_meter("messages")
    meter.body(body)
    assert meter.usage == usage

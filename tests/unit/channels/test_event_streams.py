"""Amazon's event streams."""

import struct
from base64 import b64encode
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.messages.hostings import InvokeStream
from channels.errors import ErrorReported, UpstreamCut, UpstreamMalformed
from channels.http.event_stream import (
    HEADERS_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    EventMessage,
    EventStreamDecoder,
    EventStreamResponse,
)
from loadtests.simulator.cloud import bedrock
from tests.support.rows import cases
from tests.unit.calls.world import FakeResponse, Head

FIRST = b'{"type":"message_start","message":{"id":"m"}}'
SECOND = '{"type":"content_block_delta","delta":{"text":"Gr\u00fc\u00dfe"}}'.encode()

BROKEN = {":error-code": "InternalError", ":error-message": "It broke", ":message-type": "error"}


def chunk(data: bytes) -> bytes:
    return bedrock.stream_event("chunk", b'{"bytes":"%b","p":"abc"}' % b64encode(data))


STREAM = (
    chunk(FIRST)
    + chunk(SECOND)
    + bedrock.stream_event("throttlingException", b'{"message":"Too many"}', sort="exception")
)
EVENTS = (
    b"event: message_start\ndata: " + FIRST + b"\n\n"
    b"event: content_block_delta\ndata: " + SECOND + b"\n\n"
    b'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error","message":"Too many"}}'
    b"\n\n"
)


def shown(message: EventMessage) -> bytes:
    return repr((sorted(message.headers.items()), message.payload)).encode()


class Shown:
    """Writes messages as they are."""

    def take(self, message: EventMessage) -> bytes:
        return shown(message)

    def end(self) -> bytes:
        return b""


def decoded(*pieces: bytes) -> bytes:
    decoder = EventStreamDecoder(InvokeStream())
    events = b"".join(map(decoder.feed, pieces))
    if decoder.fault is not None:
        raise decoder.fault
    decoder.end()
    return events


def test_stream_is_the_same_cut_at_every_byte() -> None:
    assert decoded(STREAM) == EVENTS
    assert decoded(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == EVENTS
    for at in range(len(STREAM)):
        assert decoded(STREAM[:at], STREAM[at:]) == EVENTS


def test_events_before_the_cut_come_and_the_cut_is_reported() -> None:
    ends = [0, len(chunk(FIRST)), len(chunk(FIRST)) + len(chunk(SECOND)), len(STREAM)]
    for at in range(len(STREAM) + 1):
        decoder = EventStreamDecoder(InvokeStream())
        events = decoder.feed(STREAM[:at])
        assert EVENTS.startswith(events)
        assert events.count(b"\n\n") == sum(end <= at for end in ends[1:])
        if at in ends:
            decoder.end()
        else:
            with pytest.raises(UpstreamCut):
                decoder.end()


def test_each_byte_that_is_another_breaks_the_stream_behind_what_was_good() -> None:
    good = len(chunk(FIRST))
    for at in range(good, good + len(chunk(SECOND))):
        for flipped in (0x01, 0x80):
            broken = bytearray(STREAM)
            broken[at] ^= flipped
            decoder = EventStreamDecoder(InvokeStream())
            assert decoder.feed(bytes(broken)) == EVENTS[: EVENTS.index(b"\n\n") + 2]
            assert decoder.fault is not None
            assert decoder.feed(STREAM) == b""


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=50), max_size=4),
            st.binary(max_size=300),
        ),
        max_size=5,
    ),
    st.integers(1, 64),
)
def test_amazons_own_library_reads_the_same(
    messages: list[tuple[dict[str, str], bytes]], size: int
) -> None:
    stream = b"".join(
        bedrock.stream_message({**headers, ":message-type": "event"}, payload)
        for headers, payload in messages
    )
    theirs = EventStreamBuffer()
    theirs.add_data(stream)
    expected = b"".join(shown(EventMessage(one.headers, one.payload)) for one in theirs)
    decoder = EventStreamDecoder(Shown())
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert b"".join(map(decoder.feed, pieces)) == expected
    assert decoder.fault is None
    decoder.end()


def prelude(size: int, headers_size: int) -> bytes:
    both = struct.pack(">II", size, headers_size)
    return both + struct.pack(">I", crc32(both))


@cases(
    "size, headers_size",
    (0, 0),
    (15, 0),
    (20, 5),
    (16 + HEADERS_BYTES_MAX + 1, HEADERS_BYTES_MAX + 1),
    (16 + PAYLOAD_BYTES_MAX + 1, 0),
    (2**32 - 1, 0),
)
def test_length_that_no_message_has_is_refused_before_it_is_waited_for(
    size: int, headers_size: int
) -> None:
    with pytest.raises(UpstreamMalformed):
        decoded(prelude(size, headers_size))


def raw_message(head: bytes, payload: bytes = b"{}") -> bytes:
    whole = prelude(16 + len(head) + len(payload), len(head)) + head + payload
    return whole + struct.pack(">I", crc32(whole))


@cases("head", b"\x05a", b"\x01a", b"\x01a\x0a", b"\x01a\x07\x00\x05ab", b"\x01\xff\x07\x00\x00")
def test_headers_that_cannot_be_read_break_the_stream(head: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        decoded(raw_message(head))


def test_headers_of_every_type_are_stepped_over() -> None:
    head = b"".join(
        b"\x01" + name + bytes([kind]) + value
        for name, kind, value in (
            (b"a", 0, b""),
            (b"b", 1, b""),
            (b"c", 2, b"1"),
            (b"d", 3, b"12"),
            (b"e", 4, b"1234"),
            (b"f", 5, b"12345678"),
            (b"g", 6, b"\x00\x02ab"),
            (b"h", 7, b"\x00\x02ab"),
            (b"i", 8, b"12345678"),
            (b"j", 9, b"1" * 16),
        )
    )
    head += b"\x0d:message-type\x07\x00\x05event"
    expected = EventMessage({"h": "ab", ":message-type": "event"}, b"{}")
    assert EventStreamDecoder(Shown()).feed(raw_message(head)) == shown(expected)


@cases("payload", b"", b"[]", b'{"bytes":1}', b'{"bytes":"!"}', b'{"p":""}')
def test_event_without_its_bytes_breaks_the_stream(payload: bytes) -> None:
    with pytest.raises(UpstreamMalformed):
        decoded(bedrock.stream_event("chunk", payload))
    with pytest.raises(UpstreamMalformed):
        decoded(chunk(b'{"no": "type"}'))


def test_what_is_no_chunk_is_an_error_or_nothing() -> None:
    assert decoded(bedrock.stream_event("later", b"{}")) == b""
    for message, kind, words in (
        (
            bedrock.stream_event("modelStreamErrorException", b"?", sort="exception"),
            "api_error",
            None,
        ),
        (
            bedrock.stream_event("serviceUnavailableException", b"{}", sort="exception"),
            "overloaded_error",
            None,
        ),
        (bedrock.stream_message(BROKEN, b""), "api_error", "It broke"),
    ):
        event = decoded(chunk(FIRST), message).partition(b"\n\n")[2]
        assert b'"type":"%b"' % kind.encode() in event
        assert words is None or words.encode() in event


def test_stream_that_begins_with_a_failure_is_none() -> None:
    with pytest.raises(ErrorReported) as raised:
        decoded(
            bedrock.stream_event("throttlingException", b'{"message":"Too many"}', sort="exception")
        )
    assert raised.value.members.message == "Too many"


async def test_response_gives_what_is_good_and_raises_what_is_not() -> None:
    for broken in (STREAM[:-1], STREAM + b"x" * 12):
        response = EventStreamResponse(FakeResponse(Head(200), [broken]), InvokeStream())
        pieces = response.chunks()
        assert EVENTS.startswith(await anext(pieces))
        with pytest.raises((UpstreamCut, UpstreamMalformed)):
            await anext(pieces)

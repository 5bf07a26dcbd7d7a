"""The splitter of server-sent events, Amazon's streams, Google's arrays."""

import json
import re
import struct
from base64 import b64encode
from itertools import pairwise
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.dialects.gemini.array_stream import ArrayFraming
from channels.dialects.messages.hostings import InvokeStream
from channels.errors import ErrorReported, UpstreamCut, UpstreamMalformed
from channels.http.event_stream import (
    HEADERS_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    EventMessage,
    EventStreamDecoder,
    EventStreamResponse,
)
from channels.http.sse import EVENT_LINES_MAX, SseEvent, SseSplitter
from loadtests.simulator.cloud import bedrock
from tests.support.rows import cases, each
from tests.unit.calls.world import FakeResponse, Head

LINES = st.lists(
    st.sampled_from(
        [
            b"",
            b"data: x",
            b"data:y",
            b"data",
            b": note",
            b"event: e",
            b"id: 1",
            b"x",
            "data: ü🙂".encode(),
        ]
    ),
    max_size=12,
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.one_of(
    st.tuples(LINES, ENDS).map(lambda made: b"".join(line + made[1] for line in made[0])),
    st.lists(st.tuples(LINES.map(lambda lines: lines[0] if lines else b""), ENDS)).map(
        lambda lines: b"".join(line + end for line, end in lines)
    ),
    st.binary(max_size=60),
    st.text(alphabet="\r\n:d at\ufeff", max_size=40).map(str.encode),
)


def feed(pieces: list[bytes]) -> tuple[list[SseEvent], bytes]:
    splitter = SseSplitter()
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return events, splitter.pending()


def read_in(events: list[SseEvent], pending: bytes) -> list[tuple[bytes | None, bytes | None]]:
    """Data and name of each event; a CR at the very end may be half of a line end."""
    if pending.endswith(b"\r\n\r"):
        events = [*events, *feed([pending, b"\n"])[0]]
    return [(event.data, event.event) for event in events if event.data is not None]


def parsed_by_the_book(stream: bytes) -> list[tuple[bytes, bytes | None]]:
    """Data and name of each event, by the standard's own steps, of a whole stream."""
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]
    found: list[tuple[bytes, bytes | None]] = []
    data: list[bytes] = []
    name: bytes | None = None
    for line in lines:
        if not line:
            if data:
                found.append((b"\n".join(data), name))
            data, name = [], None
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
    return found


@settings(deadline=None)
@given(STREAMS, st.data())
def test_pieces_of_any_size_lose_nothing_and_read_the_same(
    stream: bytes, data: st.DataObject
) -> None:
    at = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    bounds = [0, *at, len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(bounds)]
    events, pending = feed(pieces)
    assert b"".join(event.raw for event in events) + pending == stream
    assert read_in(events, pending) == parsed_by_the_book(stream)


@settings(deadline=None)
@given(STREAMS)
def test_byte_by_byte_reads_as_the_book_says(stream: bytes) -> None:
    events, pending = feed([stream[at : at + 1] for at in range(len(stream))])
    assert b"".join(event.raw for event in events) + pending == stream
    assert read_in(events, pending) == parsed_by_the_book(stream)


NEARLY_USUAL = st.lists(
    st.sampled_from(
        [
            b"data: x\n\n",
            b"data: \n\n",
            b"event: e\ndata: x\n\n",
            b"event: data: \ndata:  x\n\n",
            b"data: x\ndata: y\n\n",
            b"event: e\n\n",
            b"data: x\n",
            b": note\n\n",
            b"\n",
        ]
    ),
    max_size=6,
).map(b"".join)


@given(st.one_of(NEARLY_USUAL, STREAMS))
def test_piece_taken_for_whole_events_is_fed_to_the_same(piece: bytes) -> None:
    splitter = SseSplitter()
    datas = splitter.whole_events(piece)
    (events, pending), after = feed([piece]), splitter.feed(b"data: z\n\n")
    if datas is None:
        assert after == feed([b"data: z\n\n"])[0], "it has left no trace"
    else:
        assert [event.data for event in events] == datas
        assert [event.raw for event in events] == [
            raw + b"\n\n" for raw in piece.split(b"\n\n")[:-1]
        ]
        assert (pending, after) == (b"", [SseEvent(b"data: z\n\n", b"z")])


@cases(
    "piece, datas",
    (b"data: x\n\n", [b"x"]),
    (b"data: x\n\ndata: [DONE]\n\n", [b"x", b"[DONE]"]),
    (b"event: a\ndata: x\n\nevent: b\ndata: y\n\n", [b"x", b"y"]),
    (b"event: a\ndata: x\n\ndata: y\n\n", None),
    (b"data: x\n\ndata: y\n", None),
    (b"data: x\r\n\r\n", None),
)
def test_whole_events_are_those_of_the_usual_form(piece: bytes, datas: list[bytes] | None) -> None:
    assert SseSplitter().whole_events(piece) == datas


def test_piece_that_ends_an_event_is_no_whole_event() -> None:
    splitter = SseSplitter()
    splitter.feed(b"data: {")
    assert splitter.whole_events(b"data: x\n\n") is None


def test_event_ended_by_cr_does_not_wait_for_the_next_byte() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: x\r\r") == [SseEvent(b"data: x\r\r", b"x")]
    assert splitter.pending() == b""
    assert splitter.feed(b"\ndata: y\r\r") == [
        SseEvent(b"\n", None),
        SseEvent(b"data: y\r\r", b"y"),
    ]


@each("at", range(1, 11))
def test_lf_after_cr_belongs_to_the_event_it_ends(at: int) -> None:
    stream = b"data: x\r\n\r\n"
    splitter = SseSplitter()
    assert splitter.feed(stream[:at]) == []
    assert splitter.pending() == stream[:at]
    assert splitter.feed(stream[at:] + b"data: y\r\n\r\n") == [
        SseEvent(stream, b"x"),
        SseEvent(b"data: y\r\n\r\n", b"y"),
    ]


def test_cr_that_ends_an_event_of_other_line_ends_is_told_by_the_next_byte() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: x\r\n\r") == []
    assert splitter.feed(b"data: y\n\n") == [
        SseEvent(b"data: x\r\n\r", b"x"),
        SseEvent(b"data: y\n\n", b"y"),
    ]


def test_only_one_space_after_the_colon_is_taken_away() -> None:
    for end in (b"\n\n", b"\r\n\r\n"):
        assert feed([b"data:  x " + end])[0][0].data == b" x "
        assert feed([b"data:  x \n", b"data: y" + end])[0][0].data == b" x \ny"


def test_incomplete_event_is_pending() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: a\n\ndata: b\n") == [SseEvent(b"data: a\n\n", b"a")]
    assert splitter.pending() == b"data: b\n"
    assert repr(splitter) == "<SseSplitter 8 bytes pending>"
    assert splitter.feed(b"\n") == [SseEvent(b"data: b\n\n", b"b")]
    assert splitter.pending() == b""


@cases("end", b"\n", b"\r", b"\r\n")
def test_blank_lines_make_no_events_of_their_own(end: bytes) -> None:
    usual = b"data: x" + 2 * end
    events, pending = feed([200 * end + usual + 300 * end + usual + 400 * end])
    assert [event.data for event in events] == [None, b"x", None, b"x", None]
    assert b"".join(event.raw for event in events) + pending == (
        200 * end + usual + 300 * end + usual + 400 * end
    )


@cases("line", b"event:\n", b"data\n", b"event:\r\n", b":\r")
def test_event_of_too_many_lines_is_malformed(line: bytes) -> None:
    splitter = SseSplitter()
    some = line * 1000
    for _ in range(EVENT_LINES_MAX // (len(line) - len(line.strip())) // 1000):
        assert splitter.feed(some) == []
    with pytest.raises(UpstreamMalformed):
        splitter.feed(some)


def test_byte_order_mark_is_skipped_at_the_beginning_only() -> None:
    mark = b"\xef\xbb\xbf"
    events, _ = feed([mark[:1], mark[1:] + b"data: a\n\n", mark + b"data: b\n\n"])
    assert [event.data for event in events] == [b"a", None]


@cases("end", b"\n\n", b"\r\n\r\n")
@cases("is_one_piece", True, False)
def test_event_above_the_bound_is_malformed(end: bytes, is_one_piece: bool) -> None:
    splitter = SseSplitter(event_bytes_max=1000)
    small = b"data: " + b"x" * 900 + end
    assert len(splitter.feed(small * 5)) == 5  # each event for itself
    large = b"data: " + b"x" * 1100 + end
    pieces = [large] if is_one_piece else [large[:600], large[600:990], large[990:]]
    *small_pieces, last = pieces
    for piece in small_pieces:
        assert splitter.feed(piece) == []
    with pytest.raises(UpstreamMalformed):
        splitter.feed(last)


# --- Amazon's event streams ---

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


def test_events_before_the_cut_come_and_the_cut_is_told() -> None:
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


# --- A native-content stream as one JSON array ---


def test_elements_make_an_array_of_the_same_bytes() -> None:
    framing = ArrayFraming()
    sent = [b'{"a": 1}', b'{\n"b":"\xc3\xa9"}', b"{}"]
    array = b"".join([*map(framing.element, sent), framing.end()])
    assert array == b'[{"a": 1},\r\n{\n"b":"\xc3\xa9"},\r\n{}]'
    assert json.loads(array) == [json.loads(element) for element in sent]


def test_stream_of_nothing_is_an_empty_array() -> None:
    assert ArrayFraming().end() == b"[]"


def test_error_that_comes_in_an_array_is_an_element() -> None:
    framing = ArrayFraming()
    parts = [framing.element(b"{}"), framing.element(b' [{"error":{}}] '), framing.end()]
    assert b"".join(parts) == b'[{},\r\n{"error":{}}]'
    assert framing.element(b"[]") == b""


def test_cut_stream_leaves_the_array_open() -> None:
    framing = ArrayFraming()
    assert framing.element(b"{}") == b"[{}"

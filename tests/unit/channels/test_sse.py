"""The splitter of server-sent events, Amazon's streams, Google's arrays."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.errors import UpstreamMalformed
from channels.http.sse import EVENT_LINES_MAX, SseEvent, SseSplitter
from tests.support.rows import cases, each

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


def test_cr_that_ends_an_event_of_other_line_ends_is_known_by_the_next_byte() -> None:
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

"""Events of text in a row, which a translation passes on without decoding."""

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.messages.events import text_run
from channels.dialects.table import CHAT_DIALECTS
from channels.dialects.text_frame import TextFrame
from channels.http.sse import SseSplitter
from tests.support.rows import each
from tests.unit.calls import sse
from tests.unit.calls.relaying import TRANSLATED, Relayed, Way, relayed

WAYS = [way for way in TRANSLATED if way.upstream == "messages"]
MESSAGE = {"id": "msg_1", "model": "up", "content": [], "usage": {"input_tokens": 3}}
BEGINNING = [
    sse.event({"type": "message_start", "message": MESSAGE}),
    sse.event(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    ),
]
END = sse.event({"type": "message_stop"})
SOURCE = {"type": "web_search_result_location", "url": "u", "title": "t"}
CITED = {"type": "citations_delta", "citation": SOURCE}
letters = st.sampled_from('ab"\\/\n\t\r\b\f\x00\x7f ü€😀\u2028,{[') | st.characters(codec="utf-8")
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
others = st.sampled_from(
    [
        sse.event({"type": "ping"}),
        b": comment\n\n",
        b"event: content_block_delta\ndata: {}\ndata: " + b'{"type":"text_delta"}\n\n',
        sse.event({"type": "content_block_start", "index": 1, "content_block": CALL}),
        sse.event(
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": "{"},
            }
        ),
        sse.event({"type": "content_block_stop", "index": 1}),
        # Its place is counted in all of the text before.
        sse.event({"type": "content_block_delta", "index": 0, "delta": CITED})
        + sse.event({"type": "content_block_stop", "index": 0}),
        sse.event({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        END,
    ]
)
# The events of each read: a text, or the bytes of another event.
reads = st.lists(
    st.lists(st.text(letters, max_size=4) | others, min_size=1, max_size=6), max_size=4
)


def text_event(text: str, **members: Any) -> bytes:
    delta = {"type": "text_delta", "text": text}
    data = {"type": "content_block_delta", "index": 0, "delta": delta, **members}
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    return b"event: content_block_delta\ndata: " + written + b"\n\n"


def got(way: Way, pieces: Sequence[bytes]) -> Relayed:
    return relayed(way, [b"".join(BEGINNING) + pieces[0], *pieces[1:], END])


@each("way", WAYS)
def test_text_is_the_same_as_decoded(way: Way) -> None:
    @given(reads, st.sampled_from([None, -1, -5]))
    def is_same(found: list[list[str | bytes]], cut: int | None) -> None:
        plain, decoded = pieces_of(found, cut), pieces_of(found, cut, odd=1)
        assert got(way, plain) == got(way, decoded)

    is_same()


def pieces_of(found: list[list[str | bytes]], cut: int | None, **odd: int) -> list[bytes]:
    """The reads; of each the last bytes, from `cut` on, come with the next one."""
    pieces, rest = [], b""
    for events in found:
        read = b"".join(one if isinstance(one, bytes) else text_event(one, **odd) for one in events)
        pieces.append(rest + read[:cut])
        rest = b"" if cut is None else read[cut:]
    return [*pieces, rest]


HI = text_event("Hi")
PING = sse.event({"type": "ping"})


@each(
    "before, piece, after",
    [
        (b"", HI, b""),
        (b"", HI * 3, b""),
        (b"", HI.replace(b'"}}', b'"}    }'), b""),
        (b"", HI.replace(b'":', b'": '), b""),
        (PING, HI * 2, END),
        (PING, HI, PING + HI[:-1]),
        (b"", HI, b": comment\n\n"),
        (b"", HI, HI[:-1]),
        (b"", HI, b"\n"),
    ],
)
def test_texts_in_a_row_are_found(before: bytes, piece: bytes, after: bytes) -> None:
    found = text_run(before + piece + after)
    assert found is not None
    assert found.texts == [b"Hi"] * piece.count(b"event:")
    assert (found.start, found.end) == (len(before), len(before) + len(piece))


@each(
    "piece",
    [
        text_event(""),
        text_event("\x00"),
        text_event("a", odd=1) + HI,
        HI + text_event("a", odd=1),
        HI + PING + HI,
        HI + b"x" + HI,
        HI[:-1],
        b"x" + HI,
        b"data: {}\n" + HI,
        HI.replace(b"\n", b"\r\n"),
        HI.replace(b"Hi", rb"\u0061"),
        HI.replace(b"Hi", rb"\/"),
        END,
        b"data: " + HI,
        HI.replace(b"text_delta", b"thinking_delta"),
        b"",
    ],
)
def test_anything_else_is_decoded(piece: bytes) -> None:
    assert text_run(piece) is None


@each("text", ["two\nlines", 'quotes " and \\', "\\\\n"])
def test_usual_escapes_are_text(text: str) -> None:
    found = text_run(text_event(text))
    assert found is not None
    assert json.loads(b'"%b"' % found.texts[0]) == text


def test_character_that_is_cut_in_two_is_no_text() -> None:
    first, second = (HI.replace(b"Hi", half) for half in (b"\xc3", b"\xbc"))
    way = Way("chat", "messages")
    odd = [one.replace(b'"delta"', b'"odd":1,"delta"') for one in (first, second)]
    assert got(way, [first + second]) == got(way, [b"".join(odd)])


def chunk(delta: object, /, **members: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": members.pop("reason", None)}
    data = {"id": "c", "model": "m", "choices": [choice], **members}
    return (
        b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
    )


def said(text: str, **members: Any) -> bytes:
    return chunk({"content": text}, **members)


chat_others = st.sampled_from(
    [
        chunk({"reasoning_content": "Hm"}),
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}),
        chunk({}, reason="stop"),
        said("b", usage={"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}),
        said("b", error={"message": "busy"}),
        said("b", other={"content": "a"}),
        said("b").replace(b"data", b"event: x\ndata"),
        said("b").replace(b":", b": "),
        said("b").replace(b"b", b"\xc3"),
        said("b").replace(b"b", b"\\ud83d"),
        said("b")[:-1],
        b": comment\n\n",
        b"data: [DONE]\n\n",
    ]
)


Said = Callable[..., bytes]


@each("protocol, say, rest", [("chat", said, chat_others), ("messages", text_event, others)])
def test_text_that_passes_through_is_counted_as_if_decoded(
    protocol: str, say: Said, rest: st.SearchStrategy[bytes]
) -> None:
    @given(st.lists(st.lists(st.text(letters, max_size=4) | rest, min_size=1, max_size=4)))
    def is_same(found: list[list[str | bytes]]) -> None:
        plain, decoded = said_in(say, found), said_in(say, found, odd="")
        way = Way(protocol, protocol)
        got, expected = relayed(way, plain), relayed(way, decoded)
        assert (got.reading, got.is_complete) == (expected.reading, expected.is_complete)
        assert b"".join(plain).startswith(got.body)
        assert (got.body == b"".join(plain)) is (expected.body == b"".join(decoded))

    is_same()


def said_in(say: Said, found: list[list[str | bytes]], **odd: str) -> list[bytes]:
    """The reads; of the odd ones, no two events have the same bytes around the text."""
    numbers = itertools.count()
    made = [say("Hi", **odd)]
    for read in found:
        more = ({name: str(next(numbers)) for name in odd} for _ in read)
        made.append(
            b"".join(
                one if isinstance(one, bytes) else say(one, **members)
                for one, members in zip(read, more, strict=True)
            )
        )
    return made


def frame_in(protocol: str, event: bytes) -> TextFrame | None:
    (read,) = SseSplitter().feed(event)
    meter = CHAT_DIALECTS[protocol].new_meter()
    return meter.frame_of(event, meter.read_event(read.data or b""))


@each(
    "protocol, data",
    [
        ("chat", said("Hi")),
        ("chat", said("Hi").replace(b'":', b'": ')),
        ("chat", said("Hi", usage=None, i="c")),
        ("messages", HI.replace(b'"index":0', b'"index":0,"i":"c"')),
    ],
)
def test_texts_with_the_same_bytes_around_are_not_decoded(protocol: str, data: bytes) -> None:
    frame = frame_in(protocol, data)
    assert frame is not None
    more = [data.replace(b"Hi", text) for text in (b"", "ü€😀".encode(), rb"\nx")]
    assert frame.characters_in(data) == 2
    assert frame.characters_in(b"".join(more)) == 0 + 3 + 2
    assert frame.characters_in(data + b"\n") is None
    assert frame.characters_in(data.replace(b"Hi", b'"')) is None
    assert frame.characters_in(data.replace(b"Hi", b"\xc3")) is None
    assert frame.characters_in(data.replace(b'"c"', b'"d"')) is None


@each(
    "data",
    [
        said(""),
        said("a\nb"),
        said("a", reason="stop"),
        said("a", other={"content": "a"}),
        said("a", usage={"completion_tokens": 1}),
        said("a", x_groq={}),
        said("a", error={"message": "busy"}),
        chunk({"content": "a", "reasoning_content": "b"}),
        chunk({"content": "a", "tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}),
        chunk({"reasoning_content": "a"}),
        b"data: [DONE]\n\n",
        b"data: {\n\n",
    ],
)
def test_event_that_states_more_than_text_is_no_frame(data: bytes) -> None:
    assert frame_in("chat", data) is None


@each(
    "data",
    [
        text_event(""),
        text_event("a\nb"),
        text_event("a", usage={"output_tokens": 1}),
        text_event("a", message=None),
        text_event("a").replace(b'"text":', b'"stop_reason":"end_turn","text":'),
        text_event("a").replace(b'"text":', b'"thinking":"b","text":'),
        text_event("a").replace(b'"text":', b'"partial_json":"b","text":'),
        text_event("a", other={"text": "a"}),
        text_event("a").replace(b"content_block_delta", b"message_stop"),
        END,
    ],
)
def test_delta_that_states_more_than_text_is_no_frame(data: bytes) -> None:
    assert frame_in("messages", data) is None

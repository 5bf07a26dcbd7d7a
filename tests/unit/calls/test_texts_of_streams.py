"""Events of text in a row, which a translation passes on without decoding."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.messages.events import text_run
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

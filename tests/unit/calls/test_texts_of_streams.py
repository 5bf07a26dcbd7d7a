"""Pieces of a stream that are nothing but text, which a translation passes on without decoding."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.messages.events import plain_texts
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
letters = st.sampled_from('ab"\\/\n\t\x00\x7f ü€😀\u2028,{[') | st.characters(codec="utf-8")
# The texts of the events of each read.
reads = st.lists(st.lists(st.text(letters, max_size=4), min_size=1, max_size=4), max_size=4)


def text_event(text: str, **members: Any) -> bytes:
    delta = {"type": "text_delta", "text": text}
    data = {"type": "content_block_delta", "index": 0, "delta": delta, **members}
    written = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    return b"event: content_block_delta\ndata: " + written + b"\n\n"


def got(way: Way, pieces: Sequence[bytes]) -> Relayed:
    return relayed(way, [*BEGINNING, text_event("Hi"), *pieces, END])


@each("way", WAYS)
def test_text_is_the_same_as_decoded(way: Way) -> None:
    @given(reads)
    def is_same(texts: list[list[str]]) -> None:
        plain = [b"".join(map(text_event, read)) for read in texts]
        decoded = [b"".join(text_event(text, odd=1) for text in read) for read in texts]
        assert got(way, plain) == got(way, decoded)

    is_same()


HI = text_event("Hi")


@each("piece", [HI, HI * 3, HI.replace(b'"}}', b'"}    }'), HI.replace(b'":', b'": ')])
def test_text_is_found(piece: bytes) -> None:
    texts = plain_texts(piece)
    assert texts == [b"Hi"] * piece.count(b"event:")


@each(
    "piece",
    [
        text_event(""),
        text_event('a"b'),
        text_event("a\nb"),
        text_event("a", odd=1),
        HI[:-1],
        HI + b": comment\n\n",
        b": comment\n\n" + HI,
        b"x" + HI,
        HI + b"x" + HI,
        HI + b"\n",
        HI.replace(b"\n", b"\r\n"),
        HI + END,
        b"data: " + HI,
        HI.replace(b"text_delta", b"thinking_delta"),
        b"",
    ],
)
def test_anything_else_is_decoded(piece: bytes) -> None:
    assert plain_texts(piece) is None


def test_character_that_is_cut_in_two_is_no_text() -> None:
    first, second = (HI.replace(b"Hi", half) for half in (b"\xc3", b"\xbc"))
    way = Way("chat", "messages")
    odd = [one.replace(b'"delta"', b'"odd":1,"delta"') for one in (first, second)]
    assert got(way, [first + second]) == got(way, [b"".join(odd)])

"""Bytes that chance has spoilt, for the tests that throw them at the gateway."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st

ROOMY = settings(max_examples=300, deadline=None)
Mutation = Callable[[bytes], bytes]

PIECES = st.sampled_from(
    [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\n", b"\xff", b"\xed\xa0\x80",
     b"\\ud800", b"\\u0000", b"1e999", b"-", b"0", b"NaN", b"null", b"true", b'"model":"x",',
     b'"m\\u006fdel":', b'"stream_options":{},', b"[" * 990, b'{"a":' * 990, b"9" * 400, b" " * 300,
     b"\r\n", b"\r\n\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b": ",
     b"HTTP/1.0", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"Connection: close\r\n", b"%00", b"?key=x"]
)  # fmt: skip


def values(words: list[str]) -> st.SearchStrategy[object]:
    """JSON values of one level, some of them these words."""
    return (
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=8)
        | st.sampled_from(words)
    )


@st.composite
def mutations(draw: st.DrawFn, most: int) -> Mutation:
    """Something that is done to bytes at one place."""
    start, length = draw(st.integers(0, most)), draw(st.integers(0, 40))
    kind = draw(st.sampled_from(["flip", "cut", "double", "end", "insert", "swap"]))
    piece = draw(PIECES) if kind in ("insert", "swap") else draw(st.binary(min_size=1, max_size=1))

    def mutate(data: bytes) -> bytes:
        at = start % (len(data) + 1)
        end = at + length
        return {
            "flip": data[:at] + piece + data[at + 1 :],
            "cut": data[:at] + data[end:],
            "double": data[:end] + data[at:],
            "end": data[:at],
            "insert": data[:at] + piece + data[at:],
            "swap": data[:at] + piece + data[end:],
        }[kind]

    return mutate


def spoilt(data: bytes, most: int) -> st.SearchStrategy[bytes]:
    """The bytes with one to four mutations within the first `most` of them."""

    def apply(steps: list[Mutation]) -> bytes:
        whole = data
        for step in steps:
            whole = step(whole)
        return whole

    return st.lists(mutations(most), min_size=1, max_size=4).map(apply)

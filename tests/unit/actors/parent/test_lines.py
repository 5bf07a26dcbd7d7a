"""Lines come out whole, however the bytes came in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.parent import LineBuffer


@given(st.lists(st.binary(max_size=5).map(lambda part: part.replace(b"\n", b"-"))), st.data())
def test_lines_are_the_same_in_any_pieces(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    buffer = LineBuffer()
    found: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += buffer.feed(stream[:size])
        stream = stream[size:]
    assert found == lines
    assert buffer.size == len(b"rest")

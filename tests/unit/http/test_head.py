"""A start line may come in pieces."""

from __future__ import annotations

from gw.http.parser import may_begin, method_of


def test_start_line_may_be_one_until_a_byte_of_it_says_no() -> None:
    line = b"BREW /v1/echo HTTP/1.1\r\n"
    assert method_of(line + b"Host: a") == "BREW"
    for end in range(1, len(line)):
        assert may_begin(line[:end])
        assert method_of(line[:end]) is None
        assert not may_begin(line[:end] + b"\0")
    for other in (b"BREW  /", b"BREW / HTTP/2", b"BREW / http", b" ", b"\x16\x03\x01", b"B\r\n"):
        assert not may_begin(other)

"""The fields of a head as they are kept, held against Tornado's own."""

from __future__ import annotations

from tornado.httputil import HTTPHeaders

from gw.http.head import FieldNames, headers_of, may_begin, method_of

LINES = [
    (b"host", b"a"),
    (b"X-API-key", b"k \t"),
    (b"x-two", b"1"),
    (b"X-Two", b""),
    (b"x-odd", b"caf\xe9"),
]


def test_fields_are_read_as_tornado_does() -> None:
    ours = headers_of(LINES, FieldNames())
    theirs = HTTPHeaders()
    for field, value in LINES:
        theirs.add(field.decode(), value.decode("latin-1").strip())
    assert list(ours.get_all()) == list(theirs.get_all())
    for name in ("Host", "x-api-key", "X-API-KEY", "x-two", "X-Odd", "nothing"):
        assert ours.get(name) == theirs.get(name)
        assert ours.get(name, "") == theirs.get(name, "")
        assert (name in ours) == (name in theirs)
        assert ours.get_list(name) == theirs.get_list(name)
    ours["x-two"] = "3"
    del ours["host"]
    assert (ours.get("X-Two"), ours.get("Host"), ours["X-Two"]) == ("3", None, "3")


def test_start_line_may_be_one_until_a_byte_of_it_says_no() -> None:
    line = b"BREW /v1/echo HTTP/1.1\r\n"
    assert method_of(line + b"Host: a") == "BREW"
    for end in range(1, len(line)):
        assert may_begin(line[:end])
        assert method_of(line[:end]) is None
        assert not may_begin(line[:end] + b"\0")
    for other in (b"BREW  /", b"BREW / HTTP/2", b"BREW / http", b" ", b"\x16\x03\x01", b"B\r\n"):
        assert not may_begin(other)

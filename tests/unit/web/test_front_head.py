"""The fields of a head as they are kept, held against Tornado's own."""

from __future__ import annotations

import pytest
from tornado.httputil import HTTPHeaders

from gw.web.connection import HEAD_BYTES_MAX
from gw.web.front.head import FieldNames, HeadFault, headers_of

LINES = [
    (b"host", b"a"),
    (b"X-API-key", b"k \t"),
    (b"x-two", b"1"),
    (b"X-Two", b""),
    (b"x-odd", b"caf\xe9"),
]


def test_fields_are_read_as_tornado_does() -> None:
    ours = headers_of(LINES, FieldNames(), target_bytes=1)
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


@pytest.mark.parametrize(("more", "is_good"), [(0, True), (1, False)])
def test_head_is_measured_with_its_target(more: int, is_good: bool) -> None:
    lines = [(b"a", b"b" * (HEAD_BYTES_MAX - 105 + more))]
    if is_good:
        assert headers_of(lines, FieldNames(), target_bytes=100).get("A") is not None
    else:
        with pytest.raises(HeadFault, match="larger than 64 KB"):
            headers_of(lines, FieldNames(), target_bytes=100)

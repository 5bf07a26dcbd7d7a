"""The head of an answer: names, values that no header may have, the date."""

from __future__ import annotations

import pytest
from tornado.httputil import HTTPHeaders, format_timestamp

from gw.api.base import BaseHandler
from gw.http.dates import HttpDate
from tests.unit.api.fakes import World
from tests.unit.api.handlers import make_app
from tests.unit.http.test_routing import asked


def handler(world: World) -> BaseHandler:
    request = asked("/v1/free")
    request.connection.set_close_callback = lambda callback: None  # type: ignore[union-attr]
    return BaseHandler(make_app(world), request)


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\0b", "\x7f", "\u20ac"])
def test_value_that_no_header_may_have_is_refused(value: str) -> None:
    one = handler(World())
    with pytest.raises(ValueError, match="Unsafe header value"):
        one.set_header("X-A", value)
    assert "X-A" not in one._headers


@pytest.mark.parametrize("name", ["x-a", "X-A", "content-length", "WWW-AUTHENTICATE", "a"])
def test_name_is_spelled_as_tornado_does(name: str) -> None:
    one = handler(World())
    one.set_header(name, "1")
    one.set_header(name.upper(), 2)
    assert HTTPHeaders({name: "2"}).items() <= one._headers.items()
    one.clear_header(name)
    assert all(kept.lower() != name.lower() for kept in one._headers)


@pytest.mark.parametrize("value", ["", "a\tb", "caf\xe9", b"bytes", 7])
def test_value_is_written_as_tornado_does(value: str | bytes | int) -> None:
    one = handler(World())
    one.set_header("X-A", value)
    assert one._headers["X-A"] == one._convert_header_value(value)


def test_date_is_the_second_that_it_is() -> None:
    date = HttpDate()
    for moment in (0.0, 0.99, 1.0, 1_700_000_000.5, 1_700_000_000.9, 5.0):
        assert date.at(moment) == format_timestamp(int(moment))

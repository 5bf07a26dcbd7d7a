"""A request's head as handlers read it, held against Tornado's own reading."""

from __future__ import annotations

import pytest
from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPInputError,
    HTTPServerRequest,
    RequestStartLine,
)

from gw.http.tornado_request import Request

TARGETS = [
    "/",
    "/a?b=1&b=2&c=",
    "/a?",
    "/a?x=%zz&y=%41+b",
    "/?" + "&".join("a" for _ in range(2000)),
]


class Context:
    remote_ip = "192.0.2.1"
    protocol = "http"


class Connected(HTTPConnection):
    context = Context()


def both(
    target: str, version: str, headers: dict[str, str]
) -> list[Request | HTTPServerRequest | str]:
    """What each makes of it: a request, or why not."""
    start_line = RequestStartLine("POST", target, version)
    found: list[Request | HTTPServerRequest | str] = []
    for make in (Request, HTTPServerRequest):
        try:
            one = make(start_line=start_line, headers=HTTPHeaders(headers), connection=Connected())
        except HTTPInputError as error:
            found.append(str(error))
        else:
            found.append(one)
    return found


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("host", [None, "a", "A:80", "[::1]:80", "a,b", "a b", "", "a/b"])
def test_host_is_judged_as_tornado_does(host: str | None, version: str) -> None:
    ours, theirs = both("/", version, {} if host is None else {"Host": host})
    if isinstance(theirs, str):
        assert ours == theirs
    else:
        assert isinstance(ours, Request)
        assert ours.host == theirs.host


@pytest.mark.parametrize("target", TARGETS)
def test_target_is_read_as_tornado_does(target: str) -> None:
    ours, theirs = both(target, "HTTP/1.1", {"Host": "a"})
    if isinstance(theirs, str):
        assert ours == theirs
        return
    assert isinstance(ours, Request)
    for name in ("method", "uri", "version", "path", "query", "remote_ip", "query_arguments"):
        assert getattr(ours, name) == getattr(theirs, name), name

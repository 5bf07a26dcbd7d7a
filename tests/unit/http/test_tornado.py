"""`gw/http/tornado` does what Tornado does, and Tornado is still the one that it was read in."""

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from tornado.httputil import (
    HTTPHeaders,
    HTTPInputError,
    HTTPServerRequest,
    RequestStartLine,
    format_timestamp,
)
from tornado.routing import PathMatches
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketProtocol13, _WebSocketParams

from channels.body_budget import BodyBudget
from gw.api.application import GatewayApplication, NotFoundHandler
from gw.api.endpoint import Endpoint
from gw.api.handler import ApiHandler
from gw.app import routes
from gw.errors import GatewayError
from gw.http.response import http_date
from gw.http.tornado.headers import RequestHeaders, headers_of
from gw.http.tornado.request import TornadoRequest
from gw.http.tornado.routes import Routes, RouteTarget
from gw.http.websocket import ACCOUNT_SOCKETS_MAX, SocketBook, check_handshake
from tests.support.rows import cases, each
from tests.unit.api.fakes import World
from tests.unit.api.handlers import FREE_ROW, make_app

# Every part of Tornado that the package replaces or relies on, by the digest of its text. When one
# fails, read it and the package side by side, mend the package, then write the new digest here.
READ: dict[Callable[..., Any], str] = {
    HTTPHeaders.__init__: "697d107cd0e89225",
    HTTPHeaders.add: "206e1179cac4a196",
    HTTPHeaders.get_list: "b2fc9992e4deb306",
    HTTPHeaders.get_all: "15f1dc4f1d5af2da",
    HTTPHeaders.__getitem__: "34349264af6ce4ad",
    HTTPHeaders.__setitem__: "f4b0f712b0d642f6",
    HTTPHeaders.__delitem__: "90f6569d68b55dc7",
    HTTPServerRequest.__init__: "189551b6385eb71e",
    PathMatches.__init__: "f76d6723b7df4c65",
    PathMatches.match: "a9d4b25370211b6c",
    Application.__init__: "363f12ff629b4bb3",
    RequestHandler.__init__: "167c83fa981ec45c",
    RequestHandler.clear: "499127e7b6e0b48e",
    RequestHandler.set_header: "92ea066b1fd200b9",
    RequestHandler._convert_header_value: "0ea16f58b1d84a3f",
    RequestHandler.set_status: "e063be56a645aae0",
    RequestHandler.decode_argument: "019a2d9da28caade",
    RequestHandler.get_query_argument: "7b3cd6dce16c2b5c",
    RequestHandler.write: "0317e5d8fc77525d",
    RequestHandler.flush: "3ae7fe815121807e",
    RequestHandler.finish: "17106b3ecf893637",
    WebSocketProtocol13._receive_frame: "1f0ef857d4df556b",
    WebSocketProtocol13._handle_message: "61f43d09e004be77",
}


@each("part", READ)
def test_tornado_is_as_it_was_read(part: Callable[..., Any]) -> None:
    digest = hashlib.sha256(inspect.getsource(part).encode()).hexdigest()
    assert digest[:16] == READ[part], f"Tornado has changed {part.__qualname__}"


LINES = [
    (b"host", b"a"),
    (b"X-API-key", b"k \t"),
    (b"x-two", b"1"),
    (b"X-Two", b""),
    (b"x-odd", b"caf\xe9"),
]


def test_fields_are_read_as_tornado_does() -> None:
    ours = headers_of(LINES)
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


TARGETS = ["/", "/a?b=1&b=2&c=", "/a?", "/a?x=%zz&y=%41+b", "/?" + "a&" * 1999 + "a"]


def ours(target: str, version: str, headers: dict[str, str]) -> TornadoRequest | str:
    """What the adapter makes of a head: a request, or why not."""
    fields = RequestHeaders({name: [value] for name, value in headers.items()})
    request = TornadoRequest("POST", target, version, fields, "192.0.2.1")
    try:
        request.read_target()
    except HTTPInputError as error:
        return str(error)
    return request


def tornados(target: str, version: str, headers: dict[str, str]) -> HTTPServerRequest | str:
    try:
        return HTTPServerRequest(
            start_line=RequestStartLine("POST", target, version), headers=HTTPHeaders(headers)
        )
    except HTTPInputError as error:
        return str(error)


@cases("version", "HTTP/1.1", "HTTP/1.0")
@cases("host", None, "a", "A:80", "[::1]:80", "a,b", "a b", "", "a/b")
@each("target", TARGETS)
def test_target_and_host_are_read_as_tornado_does(
    target: str, host: str | None, version: str
) -> None:
    headers = {} if host is None else {"Host": host}
    here, there = ours(target, version, headers), tornados(target, version, headers)
    if isinstance(here, str) or isinstance(there, str):
        assert here == there
        return
    for name in ("method", "uri", "version", "host", "path", "query", "query_arguments"):
        assert getattr(here, name) == getattr(there, name), name


def handler(world: World) -> ApiHandler:
    return ApiHandler(make_app(world), request_of("/v1/free"), FREE_ROW)


@cases("value", "a\nb", "a\rb", "a\0b", "\x7f", "\u20ac")
def test_value_that_no_header_may_have_is_refused(value: str) -> None:
    one = handler(World())
    with pytest.raises(ValueError, match="Unsafe header value"):
        one.set_header("X-A", value)
    assert "X-A" not in one._headers


@cases("name", "x-a", "X-A", "content-length", "WWW-AUTHENTICATE", "a")
def test_name_is_spelled_as_tornado_does(name: str) -> None:
    one = handler(World())
    one.set_header(name, "1")
    one.set_header(name.upper(), 2)
    assert HTTPHeaders({name: "2"}).items() <= one._headers.items()
    one.clear_header(name)
    assert all(kept.lower() != name.lower() for kept in one._headers)


@cases("value", "", "a\tb", "caf\xe9", b"bytes", 7)
def test_value_is_written_as_tornado_does(value: str | bytes | int) -> None:
    one = handler(World())
    one.set_header("X-A", value)
    assert one._headers["X-A"] == one._convert_header_value(value)


def test_date_is_the_second_that_it_is() -> None:
    for moment in (0, 0, 1, 1_700_000_000, 1_700_000_000, 5):
        assert http_date(moment) == format_timestamp(moment)


NOWHERE = RouteTarget(Endpoint("nowhere", "", (), NotFoundHandler))


def request_of(path: str) -> TornadoRequest:
    request = TornadoRequest("GET", path, "HTTP/1.1", RequestHeaders({"Host": ["gateway"]}), "")
    request.read_target()
    return request


def of(*rules: tuple[str, str]) -> Routes:
    rows = [Endpoint(route, path, (), NotFoundHandler) for path, route in rules]
    application = GatewayApplication(rows, services=World().services)
    return Routes(application.wildcard_router.rules, NOWHERE)


@cases(
    "path, handler, parts",
    ("/v1/chat/completions", "CompletionsHandler", []),
    ("/v1/chat/completions?key=x", "CompletionsHandler", []),
    ("/v1/logs", "LogListHandler", []),
    ("/v1/logs/summary", "SummaryHandler", []),
    ("/v1/logs/call%201", "LogDetailHandler", [b"call 1"]),
    ("/dashboard/billing/usage", "UsageHandler", []),
    ("/v1/dashboard/billing/usage", "UsageHandler", []),
    ("/v1beta/models/a/b:generateContent", "GeminiHandler", [b"a/b", b"generateContent"]),
    ("/v1beta/models/a%3AgenerateContent", "GeminiHandler", [b"a", b"generateContent"]),
    ("/v1/models/a:b%3agenerateContent", "GeminiHandler", [b"a:b", b"generateContent"]),
    ("/v1/chat/completions/", "NotFoundHandler", []),
    ("/V1/chat/completions", "NotFoundHandler", []),
    ("", "NotFoundHandler", []),
)
def test_path_finds_its_endpoint(path: str, handler: str, parts: list[bytes]) -> None:
    application = GatewayApplication(list(routes()), services=World().services)
    target = application.routes.find_target(request_of(path))
    assert (target.endpoint.handler.__name__, list(target.path_args)) == (handler, parts)


def test_every_path_without_a_part_of_its_own_has_the_short_way() -> None:
    rules = list(routes())
    plain = [rule for rule in rules if "(" not in rule.path]
    application = GatewayApplication(rules, services=World().services)
    assert repr(application.routes) == f"<Routes {len(rules)} rules {len(plain)} exact>"


def test_earlier_rule_goes_before_an_exact_one() -> None:
    def found(path: str, *rules: tuple[str, str]) -> str:
        return of(*rules).find_target(request_of(path)).endpoint.route

    assert found("/a/b", (r"/a/.*", "any"), (r"/a/b", "exact")) == "any"
    assert found("/a/b", (r"/a/b", "exact"), (r"/a/.*", "any")) == "exact"
    assert found("/a-b", (r"/a.b", "exact")) == "exact"  # a pattern all the same


def test_tornado_has_what_is_used_of_it() -> None:
    frame = inspect.signature(WebSocketProtocol13._write_frame)
    assert list(frame.parameters) == ["self", "fin", "opcode", "data", "flags"]
    for name in (
        "_abort",
        "_handle_message",
        "_read_bytes",
        "accept_connection",
        "close",
        "is_closing",
    ):
        assert callable(getattr(WebSocketProtocol13, name))
    names = ["ping_interval", "ping_timeout", "max_message_size", "compression_options"]
    assert list(inspect.signature(_WebSocketParams).parameters) == names


GOOD = {
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Connection": "keep-alive, Upgrade",
}


@cases(
    "name, value, status",
    ("Sec-WebSocket-Version", "8", 426),
    ("Sec-WebSocket-Key", "", 400),
    ("Connection", "keep-alive", 426),
    ("Upgrade", "", 426),
)
def test_a_hand_shake_that_is_none_is_refused(name: str, value: str, status: int) -> None:
    check_handshake(GOOD)
    with pytest.raises(GatewayError) as raised:
        check_handshake({**GOOD, name: value})
    assert raised.value.http_status == status


def test_an_account_has_so_many_sockets_and_no_more() -> None:
    book = SocketBook(BodyBudget(1))
    for _ in range(ACCOUNT_SOCKETS_MAX):
        book.enter("a")
    with pytest.raises(GatewayError):
        book.enter("a")
    book.enter("b")
    book.leave("a")
    book.enter("a")
    for _ in range(ACCOUNT_SOCKETS_MAX):
        book.leave("a")
    book.leave("b")
    assert not book.open

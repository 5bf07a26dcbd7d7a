"""Bytes that are not HTTP, lengths that cannot be trusted, heads of every size."""

import gc

from gw.errors import NOT_FOUND, GatewayError
from gw.http.head import HEAD_BYTES_MAX, HEAD_LINES_MAX
from gw.http.request import Request
from gw.http.tornado.handler import TornadoHandler
from loadtests.rig.response import Response
from tests.support.aio import eventually, run
from tests.support.rows import cases
from tests.unit.api.fakes import KEY, World
from tests.unit.api.handlers import Script, make_app
from tests.unit.http.client import request, served

CHUNKED = "Transfer-Encoding: chunked"


async def sent(wire: bytes) -> tuple[Response, bool, World]:
    world = World()
    async with served(make_app(world)) as address, address.client() as client:
        await client.send(wire)
        response = await client.response()
        is_ended = await client.ended()
        await eventually(lambda: len(world.in_flight) == 0)
    return response, is_ended, world


@cases(
    "wire",
    b"GET\r\n\r\n",
    b"GET /v1/free HTTP/2.0\r\n\r\n",
    b"GET /v1/free\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /v1/free HTTP/1.1\r\nHost: a\r\nNo colon\r\n\r\n",
    b"GET /v1/free HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
    b"GET /v1/free HTTP/1.1\nHost: a\n\n",
    b"GET /v1/free HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
    f"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\0\r\n\r\n".encode(),
    f"POST / HTTP/1.0\r\nHost: a\r\n{CHUNKED}\r\n\r\n0\r\n\r\n".encode(),
)
def test_head_that_cannot_be_read_is_answered_in_our_shape(wire: bytes) -> None:
    response, is_ended, world = run(sent(wire + b"GET /v1/free HTTP/1.1\r\nHost: a\r\n\r\n"))
    assert (response.status, response.code) == (400, "invalid_request")
    assert len(response.headers["x-gateway-trace"]) == 32
    assert response.headers["connection"] == "close"
    assert is_ended
    assert world.metrics.responses == [("malformed", 400)]
    assert world.keys.uses == []
    assert KEY not in response.body.decode()


@cases(
    "lines",
    "X: \x01\r\n",
    "X: y\r\n" * 300,
    "X: y\n",
    "X: " + "y" * 70_000 + "\r\n",
    "Host: b\r\n",
    f"Content-Length: 2\r\n{CHUNKED}\r\n",
)
def test_head_that_will_not_do_is_answered_in_the_shape_of_what_it_requested(lines: str) -> None:
    for path, members in (
        ("/v1/messages", {"type", "message"}),
        ("/v1beta/native?a=b", {"code", "message", "status"}),
    ):
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"
        response, is_ended, _ = run(sent(head.encode()))
        assert (response.status, is_ended) == (400, True)
        assert set(response.json["error"]) == members


@cases("chunks", "zz\r\n", "3\r\nabcdef", "0\r\nxx\r\n\r\n", "f" * 40 + "\r\n")
def test_body_that_is_not_chunked_is_answered_as_its_endpoint_does(chunks: str) -> None:
    head = request("POST", "/v1/messages", CHUNKED).replace("\n", "\r\n")
    response, is_ended, world = run(sent((head + chunks).encode()))
    assert response.status == 400
    assert response.json["type"] == "error"
    assert response.json["error"]["type"] == "invalid_request_error"
    assert is_ended
    assert world.metrics.responses == [("/v1/messages", 400)]
    assert [refusal.error_code for refusal in world.refusals] == ["invalid_request"]
    assert world.limits.in_flight("acct_1") == 0


@cases(
    "method, path, key, status",
    ("POST", "/v1/echo", None, 401),
    ("POST", "/nowhere", KEY, 404),
    ("PUT", "/v1/echo", KEY, 405),
    ("BREW", "/v1/echo", KEY, 405),
)
def test_refused_request_gets_no_second_answer_for_its_body(
    method: str, path: str, key: str | None, status: int
) -> None:
    head = request(method, path, CHUNKED, key=key).replace("\n", "\r\n")
    response, is_ended, world = run(sent((head + "zz\r\n").encode()))
    assert response.status == status
    assert is_ended
    assert [status for _, status in world.metrics.responses] == [status]


@cases(
    "target, status",
    ("http://gateway/v1/free", 200),
    ("HTTPS://elsewhere.example:444/v1/free?x=1", 200),
    ("http://gateway", 404),
    ("http://gateway?x=/v1/free", 404),
    ("http://user@gateway/v1/free", 404),
    ("http:///v1/free", 404),
    ("ftp://gateway/v1/free", 404),
)
async def test_absolute_target_means_its_path(target: str, status: int) -> None:
    async with served(make_app(World())) as address:
        found = (await address.request(request("GET", target))).status
    assert found == status


def requests_alive() -> list[object]:
    return [one for one in gc.get_objects() if isinstance(one, Request | TornadoHandler)]


def test_answered_request_is_freed_without_the_garbage_collector() -> None:
    async def scene() -> list[object]:
        async with served(make_app(World())) as address, address.client() as client:
            gc.collect()
            gc.disable()
            try:
                before = {id(one) for one in requests_alive()}  # of other tests
                for _ in range(20):
                    await client.request(request("POST", "/v1/echo", "Content-Length: 2"), b"{}")
                return [one for one in requests_alive() if id(one) not in before]
            finally:
                gc.enable()

    assert len(run(scene())) < 6  # the last one, and the connection's next


def test_failed_request_is_freed_though_its_error_is_kept() -> None:
    """As a call keeps the error that ends it."""
    script, kept = Script(), list[Exception]()

    def raised() -> Exception:
        kept.append(GatewayError(NOT_FOUND, "There is none."))
        kept[-1].__cause__ = ValueError("why")
        return kept[-1]

    async def scene() -> list[object]:
        script.raises = raised
        script.go_on.set()
        async with served(make_app(World(), script)) as address, address.client() as client:
            before = {id(one) for one in requests_alive()}  # of other tests
            for _ in range(20):
                await client.request(request("POST", "/v1/work", "Content-Length: 2"), b"{}")
            return [one for one in requests_alive() if id(one) not in before]

    assert len(run(scene())) < 6
    assert len(kept) == 20


@cases(
    "more, status",
    (b"X: y\r\n" * (HEAD_LINES_MAX - 3), 404),
    (b"X: y\r\n" * (HEAD_LINES_MAX - 2), 400),
    (b"X: " + b"y" * (HEAD_BYTES_MAX - 70) + b"\r\n", 404),
    (b"X: " + b"y" * HEAD_BYTES_MAX + b"\r\n", 400),
)
async def test_bounds_of_a_head(more: bytes, status: int) -> None:
    async with served(make_app(World())) as address, address.client() as client:
        head = b"GET /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        await client.send(head + more + b"\r\n")
        assert (await client.response()).status == status

"""Bodies, methods and connections, over real sockets."""

import asyncio
import tracemalloc

import pytest

from channels.body_budget import BodyBudget
from gw.errors import GatewayError
from gw.http.body import DROP_FACTOR, DROP_SECONDS, SMALL_BODY_BYTES, InboundBody, UnreadBody
from tests.support.aio import eventually
from tests.support.rows import cases, each
from tests.unit.api.fakes import MAX_BODY_BYTES, World
from tests.unit.api.handlers import Script, make_app
from tests.unit.http.client import Client, request, served

MB = 1024 * 1024


async def send_for_ever(client: Client) -> None:
    while True:
        await client.send(chunk(b"x" * 65536))


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_a_body_is_read_whole_however_it_comes() -> None:
    world = World()
    async with served(make_app(world)) as address:
        sized = await address.request(request("POST", "/v1/echo", "Content-Length: 5"), b"hello")
        assert (sized.status, sized.json) == (200, {"bytes": 5, "text": "hello"})

        head = request("POST", "/v1/echo", "Transfer-Encoding: chunked")
        chunked = await address.request(head, chunk(b"hel") + chunk(b"lo") + b"0\r\n\r\n")
        assert chunked.json == {"bytes": 5, "text": "hello"}

        none = await address.request(request("POST", "/v1/echo"))
        assert none.json == {"bytes": 0, "text": ""}

        full = request("POST", "/v1/echo", f"Content-Length: {MAX_BODY_BYTES}")
        assert (await address.request(full, b"x" * MAX_BODY_BYTES)).status == 200
    assert world.metrics.responses == [("/v1/echo", 200)] * 4
    assert len(world.in_flight) == 0
    assert world.limits.in_flight("acct_1") == 0


async def test_every_answer_carries_a_trace_and_names_no_server() -> None:
    world = World()
    async with served(make_app(world)) as address:
        responses = [
            await address.request(request("GET", "/v1/free")),
            await address.request(request("GET", "/v1/free", key=None)),
            await address.request(request("GET", "/nowhere")),
            await address.request(request("PUT", "/v1/free")),
            await address.request(request("GET", "/v1/named/%ff")),
            await address.request(request("POST", "/v1/echo", f"Content-Length: {MB}")),
        ]
    assert [response.status for response in responses] == [200, 401, 404, 405, 404, 413]
    traces = {response.headers["x-gateway-trace"] for response in responses}
    assert len(traces) == len(responses)
    for response in responses:
        assert len(response.headers["x-gateway-trace"]) == 32
        assert "server" not in response.headers
        assert "etag" not in response.headers
        assert response.headers["content-type"] == "application/json"


@cases("path, allow", ("/v1/echo", "POST"), ("/v1/free", "GET, DELETE"))
@cases("method", "HEAD", "PUT", "PATCH", "OPTIONS", "BREW")
async def test_a_wrong_method_is_405_in_the_first_shape(method: str, path: str, allow: str) -> None:
    world = World()
    async with served(make_app(world)) as address:
        response = await address.request(request(method, path, key=None))
    assert response.status == 405
    assert response.headers["allow"] == allow
    assert "x-gateway-trace" in response.headers
    if method != "HEAD":
        assert response.code == "method_not_allowed"
        assert response.json["error"]["type"] == "invalid_request_error"
    assert [status for _, status in world.metrics.responses] == [405]
    assert world.keys.uses == []


@each("method", ["GET", "HEAD", "POST", "OPTIONS", "BREW"])
@each("path", ["/", "/v1", "/v1/echo/", "/v1/echo/x", "/V1/ECHO", "//v1/echo", "*"])
async def test_an_unknown_path_is_404_whatever_the_method(method: str, path: str) -> None:
    world = World()
    async with served(make_app(world)) as address:
        response = await address.request(request(method, path, key=None))
    assert response.status == 404
    assert "x-gateway-trace" in response.headers
    if method != "HEAD":
        assert response.code == "not_found"
    assert world.metrics.responses == [("not_found", 404)]


@cases("size", MAX_BODY_BYTES + 1, 2 * MAX_BODY_BYTES - 1000)
async def test_a_client_that_sends_all_first_reads_the_413(size: int) -> None:
    world = World()
    async with served(make_app(world)) as address:
        head = request("POST", "/v1/echo", f"Content-Length: {size}")
        response = await address.request(head, b"x" * size)
    assert (response.status, response.code) == (413, "request_too_large")
    assert response.headers["connection"] == "close"
    assert world.limits.in_flight("acct_1") == 0


async def test_a_413_comes_before_the_body() -> None:
    world = World()
    async with served(make_app(world)) as address, address.client() as client:
        response = await client.request(request("POST", "/v1/echo", f"Content-Length: {10**12}"))
        assert response.status == 413
        assert world.limits.in_flight("acct_1") == 0  # answered: it takes no place any more
        await client.send(b"x" * 1000)
        world.clock.advance(DROP_SECONDS)
        assert await client.ended()  # and there was no second answer


async def test_a_chunked_body_is_refused_when_it_grows_too_long() -> None:
    world = World()
    head = request("POST", "/v1/echo", "Transfer-Encoding: chunked")
    pieces = chunk(b"x" * 50_000) * 6 + b"0\r\n\r\n"
    async with served(make_app(world)) as address, address.client() as client:
        response = await client.request(head, pieces)
        assert (response.status, response.code) == (413, "request_too_large")
        assert response.headers["connection"] == "close"
    await eventually(lambda: len(world.in_flight) == 0)
    assert world.metrics.responses == [("/v1/echo", 413)]
    (refusal,) = world.refusals
    assert (refusal.error_code, refusal.http_status) == ("request_too_large", 413)


async def test_a_refused_client_cannot_send_for_ever() -> None:
    world = World()
    async with served(make_app(world)) as address, address.client() as client:
        await client.send(
            request("POST", "/v1/echo", "Transfer-Encoding: chunked").replace("\n", "\r\n").encode()
        )
        with pytest.raises(ConnectionError):
            await send_for_ever(client)
    await eventually(lambda: len(world.in_flight) == 0)
    assert world.metrics.responses == [("/v1/echo", 413)]


async def test_a_client_that_leaves_after_its_refusal_is_counted_with_it() -> None:
    world = World()
    async with served(make_app(world)) as address, address.client() as client:
        head = request("POST", "/v1/echo", "Content-Length: 100000", key=None)
        assert (await client.request(head, b"x" * 10)).status == 401
        client.leave()
        await eventually(lambda: len(world.in_flight) == 0)
    assert world.metrics.responses == [("/v1/echo", 401)]


@cases("size", 70_000, MAX_BODY_BYTES)
async def test_a_401_is_read_by_a_client_that_sends_all_of_a_large_body_first(size: int) -> None:
    world = World()
    async with served(make_app(world)) as address, address.client() as client:
        head = request("POST", "/v1/echo", f"Content-Length: {size}", key=None)
        await client.send(head.replace("\n", "\r\n").encode() + b"x" * size)
        await eventually(lambda: world.metrics.responses == [("/v1/echo", 401)])
        await eventually(lambda: world.clock.sleepers == 0)  # nobody waits for more of it
        response = await client.response()
    assert (response.status, response.code) == (401, "invalid_api_key")
    assert response.headers["connection"] == "close"


async def test_a_refusal_with_a_small_body_keeps_the_connection() -> None:
    async with served(make_app(World())) as address, address.client() as client:
        for _ in range(3):
            refused = await client.request(
                request("POST", "/v1/echo", "Content-Length: 5", key=None), b"hello"
            )
            assert refused.status == 401
            assert "connection" not in refused.headers
        good = await client.request(request("POST", "/v1/echo", "Content-Length: 5"), b"hello")
        assert good.status == 200


async def test_a_client_that_asks_before_sending_is_refused_at_once() -> None:
    lines = ("Content-Length: 100", "Expect: 100-CONTINUE")
    async with served(make_app(World())) as address:
        async with address.client() as client:
            refused = await client.request(request("POST", "/v1/echo", *lines, key=None))
            assert refused.status == 401
            assert await client.ended()
        async with address.client() as client:
            await client.send_head(request("POST", "/v1/echo", *lines))
            assert (await client.head()).startswith(b"HTTP/1.1 100 ")
            await client.send(b"x" * 100)
            assert (await client.response()).json["bytes"] == 100


async def test_an_old_client_is_answered_and_closed() -> None:
    async with served(make_app(World())) as address, address.client() as client:
        response = await client.request("GET /v1/named/x HTTP/1.0\n\n")
        is_ended = await client.ended()
    assert (response.status, response.json) == (200, {"name": "x"})
    assert is_ended


async def test_bodies_that_are_too_many_together_are_refused_for_a_while() -> None:
    """Whoever had room is served; what it took is free again once it is answered, or has left."""

    world, script, size = World(), Script(), 100_000
    world.services.bodies.limit_bytes = size
    work = request("POST", "/v1/work", f"Content-Length: {size}")
    echo = request("POST", "/v1/echo", f"Content-Length: {size}")
    async with served(make_app(world, script)) as address, address.client() as first:
        sent = asyncio.ensure_future(first.request(work, b"x" * size))
        await script.begun.wait()
        assert world.services.bodies.used_bytes == size
        refused = await address.request(echo, b"x" * size)
        assert (refused.status, refused.code) == (503, "no_channel_available")
        assert refused.headers["retry-after"] == "1"
        small = request("POST", "/v1/echo", "Content-Length: 60000")
        assert (await address.request(small, b"x" * 60_000)).status == 200
        script.go_on.set()
        assert (await sent).status == 200
        await eventually(lambda: world.services.bodies.used_bytes == 0)
        async with address.client() as leaves:
            await leaves.send(echo.replace("\n", "\r\n").encode() + b"x" * (size - 1))
            await eventually(lambda: world.services.bodies.used_bytes == size)
            leaves.leave()
            await eventually(lambda: world.services.bodies.used_bytes == 0)
        assert (await address.request(echo, b"x" * size)).status == 200


LIMIT = 1000
BODY_BYTES = 300 * 1024


def inbound(headers: dict[str, str], limit_bytes: int = LIMIT) -> InboundBody:
    return InboundBody(headers, limit_bytes, BodyBudget(10 * limit_bytes, 10 * limit_bytes), "a")


def test_a_single_piece_is_not_copied() -> None:
    piece = b"x" * 900
    body = inbound({"Content-Length": "900"})
    body.feed(piece)
    assert body.take_body() is piece


@cases("headers", {}, {"Content-Length": str(BODY_BYTES)})
@cases("size", 2, 1000, 65_536)
def test_a_body_takes_its_size_in_whatever_pieces_it_comes(
    headers: dict[str, str], size: int
) -> None:
    whole = bytes(range(256)) * (BODY_BYTES // 256)
    body = inbound(headers, 2 * BODY_BYTES)
    tracemalloc.start()
    try:
        view = memoryview(whole)
        for start in range(0, len(whole), size):
            body.feed(bytes(view[start : start + size]))
        taken = body.take_body()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken == whole
    assert peak <= 1.5 * len(whole)


def test_a_size_that_is_only_announced_takes_no_memory() -> None:
    body = inbound({"Content-Length": str(64 * MB)}, 64 * MB)
    tracemalloc.start()
    try:
        for _ in range(10):
            body.feed(b"x" * 65_536)
            assert tracemalloc.get_traced_memory()[0] <= 3 * 10 * 65_536
    finally:
        tracemalloc.stop()


def test_large_bodies_of_a_process_have_a_bound_together() -> None:
    budget = BodyBudget(3 * SMALL_BODY_BYTES, 3 * SMALL_BODY_BYTES)
    bodies = [InboundBody({}, MB, budget, "a") for _ in range(3)]
    for body in bodies[:2]:
        body.feed(b"x" * SMALL_BODY_BYTES)
        body.feed(b"x" * (SMALL_BODY_BYTES // 2))
    assert budget.used_bytes == 3 * SMALL_BODY_BYTES
    bodies[2].feed(b"x" * (SMALL_BODY_BYTES - 1))
    bodies[2].feed(b"x")  # a small one is always taken
    with pytest.raises(GatewayError) as raised:
        bodies[2].feed(b"x")
    assert (raised.value.http_status, raised.value.headers["Retry-After"]) == (503, "1")
    assert len(bodies[0].take_body()) == 1.5 * SMALL_BODY_BYTES
    assert budget.used_bytes == 3 * SMALL_BODY_BYTES  # taken, and still held by its call
    for _ in range(2):
        bodies[0].forget()
    bodies[2].feed(b"x")
    bodies[2].forget()
    bodies[1].forget()
    assert budget.used_bytes == 0


def test_an_account_leaves_room_for_the_bodies_of_others() -> None:
    budget = BodyBudget(4 * SMALL_BODY_BYTES, 2 * SMALL_BODY_BYTES)
    first, second, other = (InboundBody({}, MB, budget, owner) for owner in "aab")
    for body in (first, second, other):
        body.feed(b"x" * SMALL_BODY_BYTES)
    first.feed(b"x" * SMALL_BODY_BYTES)
    with pytest.raises(GatewayError) as raised:
        second.feed(b"x")
    assert (raised.value.http_status, raised.value.headers["Retry-After"]) == (503, "1")
    other.feed(b"x" * SMALL_BODY_BYTES)
    for body in (first, second, other):
        body.forget()
    assert budget.used_bytes == 0


@cases("encoding", "gzip", "GZIP", "br", "gzip, identity", "deflate")
def test_a_compressed_body_is_refused(encoding: str) -> None:
    with pytest.raises(GatewayError) as raised:
        inbound({"Content-Encoding": encoding})
    assert raised.value.kind.code == "invalid_request"
    assert "Content-Encoding" in raised.value.message


def test_the_rest_is_dropped_up_to_a_bound() -> None:
    leftover = UnreadBody({"Transfer-Encoding": "chunked"}, LIMIT)
    assert leftover.drop(b"x" * (DROP_FACTOR * LIMIT))
    assert not leftover.drop(b"x")

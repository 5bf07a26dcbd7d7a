"""Requests whose length cannot be trusted, over real sockets."""

from __future__ import annotations

from tornado.httputil import HTTPHeaders

from gw.http.request import framing_fault
from tests.support.aio import run
from tests.support.rows import cases, each
from tests.unit.api.fakes import World
from tests.unit.http.wire import Answer, served

SMUGGLERS = {
    "length and chunked": "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "chunked and length": "Transfer-Encoding: chunked\r\nContent-Length: 5",
    "two lengths": "Content-Length: 5\r\nContent-Length: 6",
    "the same length twice": "Content-Length: 5\r\nContent-Length: 5",
    "a list of lengths": "Content-Length: 5, 5",
    "a signed length": "Content-Length: +5",
    "a negative length": "Content-Length: -5",
    "a hexadecimal length": "Content-Length: 0x5",
    "a length with underscore": "Content-Length: 1_0",
    "a fractional length": "Content-Length: 5.0",
    "an empty length": "Content-Length: ",
    "a superscript digit": "Content-Length: \xb2",
    "an endless length": "Content-Length: " + "9" * 5000,
    "gzip, chunked": "Transfer-Encoding: gzip, chunked",
    "chunked twice": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "a padded chunked": "Transfer-Encoding: xchunked",
    "identity": "Transfer-Encoding: identity",
}


async def send(lines: str, *, version: str = "HTTP/1.1") -> tuple[Answer, bool, World]:
    world = World()
    head = f"POST /v1/embeddings {version}\r\nHost: gateway\r\n{lines}\r\n\r\n"
    async with served(world.application()) as address, address.client() as client:
        await client.send(head.encode("latin1") + b"hello")
        return await client.answer(), await client.ended(), world


@each("lines", SMUGGLERS.values())
def test_ambiguous_framing_is_refused_once_and_ends_the_connection(lines: str) -> None:
    answer, is_ended, world = run(send(lines))
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert len(answer.headers["x-gateway-trace"]) == 32
    assert answer.headers["connection"] == "close"
    assert is_ended
    assert world.metrics.responses == [("malformed", 400)]
    assert world.keys.uses == []


def test_chunked_in_an_old_version_is_refused() -> None:
    answer, is_ended, _ = run(send("Transfer-Encoding: chunked", version="HTTP/1.0"))
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert is_ended


@cases("host", "", "Host: a,b\n", "Host: a b\n", "Host: a\nHost: b\n")
def test_a_host_that_will_not_do_is_refused_in_our_shape(host: str) -> None:
    async def scene() -> Answer:
        async with served(World().application()) as address:
            return await address.ask(f"GET /v1/models HTTP/1.1\n{host}\n")

    answer = run(scene())
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert "x-gateway-trace" in answer.headers


def test_a_flood_of_query_fields_is_refused_in_our_shape() -> None:
    async def scene() -> Answer:
        path = "/v1/models?" + "&".join("a" for _ in range(20_000))
        async with served(World().application()) as address:
            return await address.ask(f"GET {path} HTTP/1.1\nHost: a\n\n")

    answer = run(scene())
    assert (answer.status, answer.code) == (400, "invalid_request")


@cases("line", "GET", "GET / HTTP/9.9 x", "GET / HTTP/2.0", "\x00\x01\x02")
def test_what_is_not_http_is_refused_and_the_server_lives_on(line: str) -> None:
    async def scene() -> tuple[bytes, Answer]:
        async with served(World().application()) as address:
            async with address.client() as client:
                await client.send(line.encode("latin1") + b"\r\nHost: a\r\n\r\n")
                refused = await client.reader.read()
            return refused, await address.ask("GET /api/v1/models/public HTTP/1.1\nHost: a\n\n")

    refused, answer = run(scene())
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert answer.status == 200


def test_ordinary_framing_is_no_fault() -> None:
    for lines in ({}, {"Content-Length": "0"}, {"Content-Length": "17"}):
        assert framing_fault("HTTP/1.0", HTTPHeaders(lines)) is None
    assert framing_fault("HTTP/1.1", HTTPHeaders({"Transfer-Encoding": "Chunked"})) is None

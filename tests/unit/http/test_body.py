"""Bodies within a bound, and what is done with the rest of a refused one."""

from __future__ import annotations

import tracemalloc

import pytest

from channels.resources import BodyBudget
from gw.errors import GatewayError
from gw.http.parser import (
    KEEP_ALIVE_BYTES,
    LINGER_FACTOR,
    SMALL_BODY_BYTES,
    InboundBody,
    UnreadBody,
)
from tests.support.rows import cases

LIMIT = 1000
MB = 1024 * 1024
BODY_BYTES = 300 * 1024


def inbound(headers: dict[str, str], limit_bytes: int = LIMIT) -> InboundBody:
    return InboundBody(headers, limit_bytes, BodyBudget(10 * limit_bytes))


@cases("pieces", [], [b""], [b"one"], [b"one", b"two"], [b"x" * LIMIT])
def test_a_body_within_the_bound_is_taken_whole(pieces: list[bytes]) -> None:
    body = inbound({})
    for piece in pieces:
        body.feed(piece)
    assert body.take() == b"".join(pieces)


def test_a_single_piece_is_not_copied() -> None:
    piece = b"x" * 900
    body = inbound({"Content-Length": "900"})
    body.feed(piece)
    assert body.take() is piece


def test_a_declared_length_over_the_bound_is_refused_unread() -> None:
    with pytest.raises(GatewayError) as raised:
        inbound({"Content-Length": str(LIMIT + 1)})
    assert raised.value.kind.code == "request_too_large"


def test_an_undeclared_length_is_refused_with_the_byte_too_many() -> None:
    body = inbound({"Transfer-Encoding": "chunked"})
    body.feed(b"x" * LIMIT)
    with pytest.raises(GatewayError) as raised:
        body.feed(b"x")
    assert raised.value.http_status == 413
    body.forget()
    assert body.take() == b""


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
        taken = body.take()
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
    budget = BodyBudget(3 * SMALL_BODY_BYTES)
    bodies = [InboundBody({}, MB, budget) for _ in range(3)]
    for body in bodies[:2]:
        body.feed(b"x" * SMALL_BODY_BYTES)
        body.feed(b"x" * (SMALL_BODY_BYTES // 2))
    assert budget.held_bytes == 3 * SMALL_BODY_BYTES
    bodies[2].feed(b"x" * (SMALL_BODY_BYTES - 1))
    bodies[2].feed(b"x")  # a small one is always taken
    with pytest.raises(GatewayError) as raised:
        bodies[2].feed(b"x")
    assert (raised.value.http_status, raised.value.headers["Retry-After"]) == (503, "1")
    assert len(bodies[0].take()) == 1.5 * SMALL_BODY_BYTES
    assert budget.held_bytes == 3 * SMALL_BODY_BYTES  # taken, and still held by its call
    for _ in range(2):
        bodies[0].forget()
    bodies[2].feed(b"x")
    bodies[2].forget()
    bodies[1].forget()
    assert budget.held_bytes == 0


@cases("encoding", "gzip", "GZIP", "br", "gzip, identity", "deflate")
def test_a_compressed_body_is_refused(encoding: str) -> None:
    with pytest.raises(GatewayError) as raised:
        inbound({"Content-Encoding": encoding})
    assert raised.value.kind.code == "invalid_request"
    assert "Content-Encoding" in raised.value.message


@cases("encoding", "", "identity", " Identity ")
def test_identity_is_no_compression(encoding: str) -> None:
    assert inbound({"Content-Encoding": encoding}).take() == b""


@cases(
    "headers, is_expected, is_held_back, keeps_connection",
    ({}, False, False, True),
    ({"Content-Length": "0"}, False, False, True),
    ({"Content-Length": "10"}, True, False, True),
    ({"Content-Length": str(KEEP_ALIVE_BYTES + 1)}, True, False, False),
    ({"Transfer-Encoding": "chunked"}, True, False, False),
    ({"Content-Length": "10", "Expect": "100-continue"}, True, True, False),
)
def test_the_headers_tell_what_to_do_with_the_rest(
    headers: dict[str, str], is_expected: bool, is_held_back: bool, keeps_connection: bool
) -> None:
    leftover = UnreadBody(headers, LIMIT)
    assert leftover.is_expected == is_expected
    assert leftover.is_held_back == is_held_back
    assert leftover.keeps_connection == keeps_connection


def test_the_rest_is_dropped_up_to_a_bound() -> None:
    leftover = UnreadBody({"Transfer-Encoding": "chunked"}, LIMIT)
    assert leftover.drop(b"x" * (LINGER_FACTOR * LIMIT))
    assert not leftover.drop(b"x")

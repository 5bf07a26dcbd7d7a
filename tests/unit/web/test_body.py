"""Bodies within a bound, and what is done with the rest of a refused one."""

from __future__ import annotations

import pytest

from gw.web.body import KEEP_ALIVE_BYTES, LINGER_FACTOR, InboundBody, Leftover
from gw.web.errors import GatewayError

LIMIT = 1000


@pytest.mark.parametrize("pieces", [[], [b""], [b"one"], [b"one", b"two"], [b"x" * LIMIT]])
def test_a_body_within_the_bound_is_taken_whole(pieces: list[bytes]) -> None:
    body = InboundBody({}, LIMIT)
    for piece in pieces:
        body.feed(piece)
    assert body.take() == b"".join(pieces)


def test_a_single_piece_is_not_copied() -> None:
    piece = b"x" * 900
    body = InboundBody({"Content-Length": "900"}, LIMIT)
    body.feed(piece)
    assert body.take() is piece


def test_a_declared_length_over_the_bound_is_refused_unread() -> None:
    with pytest.raises(GatewayError) as raised:
        InboundBody({"Content-Length": str(LIMIT + 1)}, LIMIT)
    assert raised.value.kind.code == "request_too_large"


def test_an_undeclared_length_is_refused_with_the_byte_too_many() -> None:
    body = InboundBody({"Transfer-Encoding": "chunked"}, LIMIT)
    body.feed(b"x" * LIMIT)
    with pytest.raises(GatewayError) as raised:
        body.feed(b"x")
    assert raised.value.http_status == 413
    assert body.take() == b""


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "gzip, identity", "deflate"])
def test_a_compressed_body_is_refused(encoding: str) -> None:
    with pytest.raises(GatewayError) as raised:
        InboundBody({"Content-Encoding": encoding}, LIMIT)
    assert raised.value.kind.code == "invalid_request"
    assert "Content-Encoding" in raised.value.message


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_identity_is_no_compression(encoding: str) -> None:
    assert InboundBody({"Content-Encoding": encoding}, LIMIT).take() == b""


@pytest.mark.parametrize(
    ("headers", "is_expected", "is_held_back", "keeps_connection"),
    [
        ({}, False, False, True),
        ({"Content-Length": "0"}, False, False, True),
        ({"Content-Length": "10"}, True, False, True),
        ({"Content-Length": str(KEEP_ALIVE_BYTES + 1)}, True, False, False),
        ({"Transfer-Encoding": "chunked"}, True, False, False),
        ({"Content-Length": "10", "Expect": "100-continue"}, True, True, False),
    ],
)
def test_the_headers_tell_what_to_do_with_the_rest(
    headers: dict[str, str], is_expected: bool, is_held_back: bool, keeps_connection: bool
) -> None:
    leftover = Leftover(headers, LIMIT)
    assert leftover.is_expected == is_expected
    assert leftover.is_held_back == is_held_back
    assert leftover.keeps_connection == keeps_connection


def test_the_rest_is_dropped_up_to_a_bound() -> None:
    leftover = Leftover({"Transfer-Encoding": "chunked"}, LIMIT)
    assert leftover.drop(b"x" * (LINGER_FACTOR * LIMIT))
    assert not leftover.drop(b"x")

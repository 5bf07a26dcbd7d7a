"""Requests whose length cannot be trusted, over real sockets."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from gw.http.faults import RequestFault
from gw.http.head import Head
from gw.http.parser import RequestParser
from loadtests.rig.response import Response
from tests.support.aio import run
from tests.support.rows import cases, each
from tests.unit.api.fakes import World
from tests.unit.http.client import served

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


async def send(lines: str, *, known: int) -> tuple[Response, bool, World]:
    """Send a request with these lines, after as many that are alike but for them."""
    world = World()
    head = "POST /v1/embeddings HTTP/1.1\r\nHost: gateway\r\n"
    async with served(world.application()) as address, address.client() as client:
        for _ in range(known):
            await client.request(f"{head}Content-Length: 5\n\n".replace("\r", ""), b"hello")
        await client.send(f"{head}{lines}\r\n\r\n".encode("latin1") + b"hello")
        return await client.response(), await client.ended(), world


@cases("known", 0, 1, 2)
@each("lines", SMUGGLERS.values())
def test_ambiguous_framing_is_refused_once_and_ends_the_connection(lines: str, known: int) -> None:
    response, is_ended, world = run(send(lines, known=known))
    assert (response.status, response.code) == (400, "invalid_request")
    assert len(response.headers["x-gateway-trace"]) == 32
    assert response.headers["connection"] == "close"
    assert is_ended
    assert world.metrics.responses[known:] == [("malformed", 400)]
    assert world.keys.uses == []


LENGTH, BEARER = b"Content-Length: 5\r\n", b"Authorization: Bearer sk-a\r\n"
KNOWN = b"POST /a?b HTTP/1.1\r\nHost: a\r\n" + LENGTH + b"X: 5\r\n\r\nhello"


def feed(parser: RequestParser, *pieces: bytes) -> list[Any]:
    found = list[Any]()
    for one in pieces:
        parser.buffer.add(one)
        while parser.buffer.left_bytes and not (found and type(found[-1]) is RequestFault):
            found += parser.advance()
    return found


def events(*known: bytes, last: Sequence[bytes]) -> list[object]:
    """What a parser makes of the pieces of a request, after others that are whole."""
    parser = RequestParser()
    feed(parser, *known)
    found = feed(parser, *last)
    heads = [(*one[:3], list(one[3].get_all()), one[4]) for one in found if type(one) is Head]
    return [parser.stage, *heads, *(one for one in found if type(one) is not Head)]


@each("old", [b"5\r\n", b"HTTP/1.1", b"Host", b"X: 5", LENGTH, b"\r\n\r\n", b"POST", b"a?b"])
@cases("new", b"", b"0", b"17\r\n", b"+5\r\n", b"5" * 19 + b"\r\n", b"5 \r\n", b"X", LENGTH * 2)
def test_head_means_what_it_says_whatever_was_alike_before(old: bytes, new: bytes) -> None:
    for known in (KNOWN.replace(place, BEARER + place) for place in (b"X", LENGTH, b"no key")):
        last = [known.replace(old, new, 1)]
        for times in (1, 2, 20):
            assert events(*[known] * times, last=last) == events(last=last)


NAMES = [b"Authorization: Bearer ", b"x-api-key:", b"X-Goog-API-Key:  ", b"authorization: ", b"X: "]
NAMES += [b"X-Alt-Api-Key: bearer ", BEARER + b"X-Api-Key: ", BEARER * 2 + b"Authorization: Basic "]
KEYS = [b"sk-b", b"s", b"sk-a~._-9", b"k" * 128, b"k" * 129, b"", b" ", b"sk-a\0", b"a b", b"a,b"]
KEYS += [b"\xff", b"a:b", b"a\t", b"\ta", b"a\r", b"a\n", b"a\r\n", b"a\r\n\r\n", b"a\r\n" + LENGTH]


@each("names", NAMES)
@each("key", KEYS)
def test_head_with_another_key_means_what_it_would_alone(names: bytes, key: bytes) -> None:
    for place, count in product((LENGTH, b"X: 5"), (1, -1)):
        known = KNOWN.replace(place, names + b"sk-a\r\n" + place)
        last, rest = known.replace(b"sk-a", key, count), known.partition(b"h: 5")[2]
        behind = rest[:-5].replace(b"sk-a", key, count) + b"5" + rest
        two_keys = known.replace(place, BEARER + place)
        for one in (last, last.replace(b"h: 5", b"h: 05"), behind):
            assert events(known, last=[one]) == events(last=[one])
            assert events(known, two_keys, last=[one]) == events(last=[one])
        for cut in range(1, len(last)) if key == b"sk-b" else ():
            pieces = [last[:cut], last[cut:]]
            assert events(known, last=pieces) == events(last=pieces)
            assert events(known, *pieces, last=[known]) == events(last=[known])


@cases("field", "Authorization", None)
@cases("place", LENGTH, b"X: 5")
def test_head_with_another_key_shares_what_is_known_but_for_its_key(
    field: str | None, place: bytes
) -> None:
    parser, known = RequestParser(), KNOWN.replace(place, BEARER + place)
    first = feed(parser, known)[0].headers
    first.parts, first.target, first.unread_by = shared = object(), object(), object()
    first.key_hash, first.key_field = b"a", field
    assert feed(parser, known)[0].headers is first
    last = known.replace(b"sk-a", b"sk-b").replace(b"h: 5", b"h: 05")
    other = feed(parser, last)[0].headers
    assert (other.parts, other.target, other.unread_by) == shared
    assert (other.key_hash, other.key_text, other.key_field) == (None, field and "sk-b", field)
    assert (other["Authorization"], first["Authorization"]) == ("Bearer sk-b", "Bearer sk-a")
    assert (first.key_hash, first["Content-Length"]) == (b"a", "5")


@cases("host", "", "Host: a,b\n", "Host: a b\n", "Host: a\nHost: b\n", "Host: a\n")
async def test_host_or_flood_of_query_fields_is_refused_in_our_shape(host: str) -> None:
    query = "&".join("a" for _ in range(20_000 if host == "Host: a\n" else 1))
    async with served(World().application()) as address:
        response = await address.request(f"GET /v1/models?{query} HTTP/1.1\n{host}\n")
    assert (response.status, response.code) == (400, "invalid_request")
    assert "x-gateway-trace" in response.headers

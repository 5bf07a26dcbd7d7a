"""Reading a result from where an upstream says it is: redirects, keys, what cannot be used."""

from __future__ import annotations

import pytest

from actors.media_store.fetch import FetchFault, FileLocation, opened
from loadtests.simulator.server import Simulator
from tests.integration.media.copying import film_bytes, film_link

SIZE = 200_000
KEY = (("Authorization", "Bearer k"),)


def redirect(to: str, **more: object) -> dict[str, object]:
    return {"status": 302, "headers": {"Location": to}, **more}


async def read(location: FileLocation) -> bytes:
    async with opened(location) as source:
        return b"".join([piece async for piece in source.pieces()])


async def test_a_redirect_is_followed_and_the_key_goes_no_further() -> None:
    async with Simulator() as first, Simulator() as second:
        first.put_faults({"file": redirect(film_link(second, SIZE))})
        start = FileLocation(film_link(first, SIZE), first.base_url, KEY)
        assert await read(start) == film_bytes(SIZE)
        (asked,), (then,) = first.requests(), second.requests()
        assert (asked.header(b"authorization"), then.header(b"authorization")) == (b"Bearer k", b"")


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        ("/_files/again", "redirected too often"),
        ("http://169.254.169.254/latest/meta-data", "address not public"),
        ("http://10.1.2.3/x", "address not public"),
        ("file:///etc/passwd", "no address"),
        ("gopher://a.example/x", "no address"),
    ],
)
async def test_a_redirect_leads_nowhere_it_must_not(to: str, reason: str) -> None:
    async with Simulator() as simulator:
        simulator.put_faults({"file": redirect(to)})
        with pytest.raises(FetchFault, match=reason):
            await read(FileLocation(film_link(simulator, SIZE), simulator.base_url))


@pytest.mark.parametrize(
    ("sim", "reason"),
    [
        ({"malformed": "http"}, "not HTTP"),
        ({"refuse": True}, "unreachable|cut"),
        ({"cut_after_bytes": 10}, "cut"),
        ({"status": 500}, "status 500"),
        ({"headers": {"Content-Encoding": "gzip"}}, "not HTTP"),
    ],
)
async def test_what_cannot_be_used_says_why(sim: dict[str, object], reason: str) -> None:
    async with Simulator() as simulator:
        simulator.put_faults({"file": sim})
        with pytest.raises(FetchFault, match=reason):
            await read(FileLocation(film_link(simulator, SIZE), simulator.base_url))


async def test_a_wish_to_be_asked_later_is_heard() -> None:
    async with Simulator() as simulator:
        simulator.put_faults({"file": {"status": 429, "retry_after": 40}})
        with pytest.raises(FetchFault) as caught:
            await read(FileLocation(film_link(simulator, SIZE), simulator.base_url))
        assert caught.value.after_seconds == 40.0

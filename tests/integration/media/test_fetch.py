"""Reading a result from where an upstream says it is: redirects, keys, what cannot be used."""

from __future__ import annotations

import pytest

from actors.media_store.copier import FetchFault, FileLocation, opened
from channels.http.client import address_of
from channels.http.transport import Proxy, Transport
from loadtests.simulator.server import Simulator
from tests.integration.media.copying import film_bytes, film_link
from tests.unit.channels.test_transport import proxied

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


async def test_a_channels_proxy_carries_what_is_copied_and_leads_nowhere_it_must_not() -> None:
    async with Simulator() as simulator, proxied() as (proxy, server):
        through = Transport(Proxy("127.0.0.1", server.port))
        link = film_link(simulator, SIZE)
        location = FileLocation(link, simulator.base_url, transport=through)
        assert await read(location) == film_bytes(SIZE)
        assert len(proxy.heads) == 1
        simulator.put_faults({"file": redirect("http://10.1.2.3/x")})
        with pytest.raises(FetchFault, match="address not public"):
            await read(location)
        assert not any("10.1.2.3" in head for head in proxy.heads)


def test_what_a_channel_trusts_and_shows_is_for_its_own_origin() -> None:
    own, other = (address_of(url).origin for url in ("https://a.example", "https://b.example"))
    proxy = Proxy("127.0.0.1", 8080)
    whole = Transport(proxy, ca_file="ca.pem", certificate="c.pem", key="k.pem")
    location = FileLocation("https://b.example/x", "https://a.example/v1", transport=whole)
    assert location.transport_to(own) == whole
    assert location.transport_to(other) == Transport(proxy)
    trusting = FileLocation("https://b.example/x", "https://a.example", transport=Transport(None))
    assert trusting.transport_to(other) is None

"""Ways to an upstream other than the usual one, over real connections: proxies, certificates."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from channels.errors import UpstreamUnreachable
from channels.http.interfaces import UpstreamRequest
from channels.http.transport import Proxy, Transport
from tests.support.certificates import pem_files
from tests.support.rows import cases
from tests.unit.channels.raw_server import Peer, RawServer, answering, new_http

NAME = "localhost"
TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ProxyServer:
    """Answers CONNECT with `answer`, and carries bytes to and fro where that is a tunnel."""

    def __init__(self, reply: bytes = TUNNEL) -> None:
        self._answer = reply
        self.heads: list[str] = []

    async def __call__(self, peer: Peer) -> None:
        head = await peer.reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode())
        await peer.send(self._answer)
        if not self._answer.startswith(TUNNEL[:12]):
            await peer.gone()
            return
        port = int(head.split()[1].rpartition(b":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(_carry(peer.reader, writer), _carry(reader, peer.writer))
        finally:
            writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(65536):
            writer.write(piece)
    finally:
        writer.close()


@asynccontextmanager
async def proxied(reply: bytes = TUNNEL) -> AsyncIterator[tuple[ProxyServer, RawServer]]:
    proxy = ProxyServer(reply)
    async with RawServer(proxy) as server:
        yield proxy, server


def request(port: int, transport: Transport | None, scheme: str = "http") -> UpstreamRequest:
    return UpstreamRequest("POST", f"{scheme}://{NAME}:{port}/v1", (), b"{}", transport)


async def test_requests_go_through_the_tunnel_of_a_proxy_and_keep_it() -> None:
    async with RawServer(answering) as upstream, proxied() as (proxy, server), new_http() as http:
        through = Transport(Proxy("127.0.0.1", server.port, "user:pass"))
        for _ in range(2):
            response = await http.open(request(upstream.port, through))
            assert await response.read(10) == b"{}"
        assert (server.connections, upstream.connections) == (1, 1)
        (head,) = proxy.heads
        assert head.startswith(f"CONNECT {NAME}:{upstream.port} HTTP/1.1\r\n")
        assert f"Proxy-Authorization: Basic {b64encode(b'user:pass').decode()}\r\n" in head
        # Another transport shares none of its connections.
        response = await http.open(request(upstream.port, None))
        assert await response.read(10) == b"{}"
        assert (server.connections, upstream.connections) == (1, 2)


@cases(
    "reply, message",
    (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "status 407"),
    (b"HTTP/1.1 502 Bad Gateway\r\nX: y\r\n\r\n", "status 502"),
    (b"SSH-2.0 what is this\r\n\r\n", "no HTTP"),
    (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 4000, "no answer"),
    (TUNNEL + b"HTTP/1.1 200 OK\r\n\r\n", "more than an answer"),
)
async def test_proxy_that_makes_no_tunnel_is_reported_without_its_password(
    reply: bytes, message: str
) -> None:
    async with RawServer(answering) as upstream, proxied(reply) as (_, server), new_http() as http:
        through = Transport(Proxy("127.0.0.1", server.port, "user:hidden"))
        with pytest.raises(UpstreamUnreachable) as caught:
            await http.open(request(upstream.port, through))
        assert message in caught.value.detail
        assert "hidden" not in repr(caught.value) + repr(through)


async def test_certificates_of_a_channel_are_trusted_and_shown_through_a_proxy(
    tmp_path: Path,
) -> None:
    served, own = _pair(tmp_path, NAME), _pair(tmp_path, "client.example")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=own)
    context.load_cert_chain(served)
    context.verify_mode = ssl.CERT_REQUIRED
    async with RawServer(answering, tls=context) as upstream, proxied() as (_, server):
        proxy = Proxy("127.0.0.1", server.port)
        async with new_http() as http:
            for through in (None, proxy):
                trusting = Transport(through, ca_file=served, certificate=own, key=own)
                response = await http.open(request(upstream.port, trusting, "https"))
                assert await response.read(10) == b"{}"
            with pytest.raises(UpstreamUnreachable):  # the system trusts no such server
                await http.open(request(upstream.port, None, "https"))


async def test_file_of_certificates_that_is_gone_makes_its_channel_unreachable(
    tmp_path: Path,
) -> None:
    async with RawServer(answering) as upstream, new_http() as http:
        transport = Transport(ca_file=str(tmp_path / "gone.pem"))
        with pytest.raises(UpstreamUnreachable):
            await http.open(request(upstream.port, transport, "https"))


@cases(
    "url, proxy",
    ("http://proxy:3128", Proxy("proxy", 3128)),
    ("http://u%40d:p%2Fw@10.0.0.1:80/", Proxy("10.0.0.1", 80, "u@d:p/w")),
    ("HTTP://[::1]:8080", Proxy("::1", 8080)),
    ("http://u@h:1", Proxy("h", 1, "u:")),
)
def test_url_of_a_proxy_is_read(url: str, proxy: Proxy) -> None:
    assert Proxy.of(url) == proxy


@cases(
    "url", "proxy:3128", "https://p:1", "socks5://p:1", "http://p", "http://p:99999", "http://p:1/x"
)
def test_url_of_no_proxy_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no http"):
        Proxy.of(url)


def _pair(folder: Path, name: str) -> str:
    """A file that holds the certificate of `name` and its key."""
    path = folder / f"{name}.pem"
    path.write_bytes(b"".join(pem_files(name)))
    return str(path)


@cases(
    "url",
    "http://proxy.example:3128",
    "http://user@proxy.example:3128",
    "http://us%40er:pa%3Ass%2Fw@[::1]:80",
)
def test_proxy_is_the_same_as_a_url_for_libraries(url: str) -> None:
    proxy = Proxy.of(url)
    assert Proxy.of(proxy.url) == proxy

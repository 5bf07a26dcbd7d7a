"""Which address is connected to, how often a name is looked up, how heads are written."""

import asyncio
import resource
import socket
import threading
from contextlib import AsyncExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from channels.errors import NoFileLeft, UpstreamUnreachable
from channels.http.client import HttpClient
from channels.http.connection_pool import IDLE_SECONDS
from channels.http.dialer import (
    DNS_CACHE_SECONDS,
    AddressRefused,
    SocketAddress,
    first_connected,
    in_turn,
)
from channels.http.interfaces import UpstreamRequest
from channels.http.names import LOOKUPS_EACH_MAX, LOOKUPS_MAX, look_up
from channels.http.origin import Origin, ParsedUrl, address_of
from channels.http.request_head import head_of
from channels.open_files import OpenFiles
from metrics.prometheus import Metrics
from tests.support.aio import both_loops, eventually, jump, run
from tests.support.logs import logs
from tests.support.rows import cases
from tests.unit.channels.raw_server import OK, Peer, RawServer, answering, new_http, silent


def ipv4(address: tuple[str, int]) -> SocketAddress:
    return SocketAddress(socket.AF_INET, address)


def refusing() -> SocketAddress:
    """An address where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return ipv4(sock.getsockname())


def test_families_are_tried_in_turn() -> None:
    four = [ipv4((f"10.0.0.{n}", 80)) for n in (1, 2, 3)]
    six = [SocketAddress(socket.AF_INET6, ("::1", 80, 0, 0))]
    assert in_turn([*six, *four]) == [six[0], *four]
    assert in_turn([*four, *six]) == [four[0], six[0], four[1], four[2]]


@both_loops
async def test_address_that_refuses_or_is_silent_gives_way_to_the_next() -> None:
    with silent() as port:
        mute = ipv4(("127.0.0.1", port))
        async with RawServer(answering) as server:
            good = ipv4(("127.0.0.1", server.port))
            for addresses in ([refusing(), good], [mute, good], [good, mute], [good, good]):
                with await first_connected(addresses) as sock:
                    assert sock.getpeername() == good.address


@both_loops
async def test_last_refusal_is_the_one_reported() -> None:
    with pytest.raises(ConnectionRefusedError):
        await first_connected([refusing(), refusing()])
    with pytest.raises(OSError, match="no address"):
        await first_connected([])


@both_loops
async def test_cancelled_dialing_leaves_nothing_behind() -> None:
    with silent() as one, silent() as other:
        mute, mute2 = ipv4(("127.0.0.1", one)), ipv4(("127.0.0.1", other))
        for addresses in ([mute], [mute, mute2]):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await first_connected(addresses)
        # A socket that was left open would be a ResourceWarning, which fails the test.
        await eventually(lambda: len(asyncio.all_tasks()) == 1, what="no task left")


def test_name_is_looked_up_once_a_minute_and_again_after_a_failure() -> None:
    async def scenario() -> None:
        loop: Any = asyncio.get_running_loop()
        requested: list[str] = []

        async def getaddrinfo(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
            requested.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        loop.getaddrinfo = getaddrinfo

        async def script(peer: Peer) -> None:  # one request a connection
            await peer.request()
            await peer.send(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))

        async with new_http() as http:
            async with RawServer(script) as server:
                there = UpstreamRequest("POST", f"http://up.example:{server.port}/", (), b"{}")

                async def call() -> None:
                    assert await (await http.open(there)).read(10) == b"{}"

                await asyncio.gather(*(call() for _ in range(20)))
                assert len(requested) == 1
                jump(DNS_CACHE_SECONDS + 1)
                await call()
                assert len(requested) == 2
            for _ in range(2):
                with pytest.raises(UpstreamUnreachable):
                    await http.open(there)
            assert len(requested) == 3

    run(scenario(), timeout_seconds=300)


async def test_names_of_strangers_that_nobody_serves_hold_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor the threads of the loop, which look the names of upstreams up."""
    ends, loop = threading.Event(), asyncio.get_running_loop()

    def slow(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        if host.startswith("slow"):
            ends.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    names = [f"slow{n}" for n in range(LOOKUPS_MAX // LOOKUPS_EACH_MAX)] + ["slow0"] * 50
    waiting = [asyncio.create_task(look_up(name, 80)) for name in names]
    assert await loop.run_in_executor(None, lambda: "free") == "free"
    assert [one[4] for one in await look_up("good", 80)] == [("127.0.0.1", 80)]
    waiting.pop().cancel()
    ends.set()
    faults = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(one) for one in faults} == {socket.gaierror}


@pytest.mark.parametrize("judges_all", [False, True])
def test_a_name_with_a_refused_address_is_refused_where_all_are_judged(
    judges_all: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        hosts = ["127.0.0.1", "127.0.0.2"]

        def getaddrinfo(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in hosts]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        http = HttpClient(
            connect_seconds=5, allows=lambda one: one == "127.0.0.1", judges_all=judges_all
        )
        async with RawServer(answering) as server:
            there = UpstreamRequest("POST", f"http://up.example:{server.port}/", (), b"{}")
            if judges_all:
                with pytest.raises(AddressRefused):
                    await http.open(there)
                hosts.pop()
            assert await (await http.open(there)).read(10) == b"{}"
            await http.close()

    run(scenario())


async def test_idle_connection_is_closed_after_its_time() -> None:
    gone: list[int] = []

    async def script(peer: Peer) -> None:
        while not peer.reader.at_eof():
            try:
                await peer.request()
            except asyncio.IncompleteReadError:
                break
            await peer.send(OK)
        gone.append(peer.number)

    async with RawServer(script) as server, new_http() as http:
        await asyncio.gather(*(http.open(server.request()) for _ in range(2)))
        assert "2 connections, 2 idle" in repr(http)
        jump(IDLE_SECONDS / 2)
        await (await http.open(server.request())).read(10)  # on the one used last
        jump(IDLE_SECONDS / 2 + 1)
        await eventually(lambda: gone == [1], what="the end of the first connection")
        assert "1 connections, 1 idle" in repr(http)
        assert server.connections == 2


@logs("files_running_out")
@both_loops
async def test_want_of_files_closes_the_idlest_connection_of_any_origin_before_a_call_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = OpenFiles(Metrics().files)
    gone: list[str] = []
    go_on = asyncio.Event()

    async def script(peer: Peer, name: str) -> None:
        await peer.request()
        await go_on.wait() if name == "busy" else None
        await peer.send(OK)
        await peer.gone()
        gone.append(name)

    async with AsyncExitStack() as stack:
        http = HttpClient(connect_seconds=5, files=files)
        stack.push_async_callback(http.close)
        servers = {
            name: await stack.enter_async_context(RawServer(partial(script, name=name)))
            for name in ("first", "second", "third", "busy", "none")
        }
        for name in ("first", "second"):
            await (await http.open(servers[name].request())).read(10)
        monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))  # far fewer than are open
        assert not files.is_used_up
        await (await http.open(servers["third"].request())).read(10)
        await eventually(lambda: gone == ["first"], what="the idlest given up")
        opening = [asyncio.ensure_future(http.open(servers["busy"].request())) for _ in range(2)]
        await eventually(lambda: gone == ["first", "second", "third"], what="all given up")
        assert files.is_used_up
        with pytest.raises(NoFileLeft):
            await http.open(servers["none"].request())
        go_on.set()
        for one in await asyncio.gather(*opening):
            await one.read(10)
    monkeypatch.undo()
    assert files.metrics._freed[("upstreams",)].value == 3


@cases(
    "url, address, host",
    ("http://a.example/v1", ParsedUrl(Origin("http", "a.example", 80), "/v1"), "a.example"),
    ("https://a.example", ParsedUrl(Origin("https", "a.example", 443), "/"), "a.example"),
    (
        "https://A.example:8443/m%2F1:go?alt=sse",
        ParsedUrl(Origin("https", "a.example", 8443), "/m%2F1:go?alt=sse"),
        "a.example:8443",
    ),
    ("http://[::1]:81/x", ParsedUrl(Origin("http", "::1", 81), "/x"), "[::1]:81"),
)
def test_url_becomes_origin_target_and_host(url: str, address: ParsedUrl, host: str) -> None:
    assert address_of(url) == address
    head = head_of("POST", address, (("X-A", "b c"),), user_agent="gw/1")
    assert head.startswith(
        f"POST {address.target} HTTP/1.1\r\nHost: {host}\r\nX-A: b c\r\n".encode()
    )
    assert head.endswith(b"\r\n")


@cases("url", "ftp://a.example/", "http:///x", "http://a.example/a b", "/v1", "")
def test_url_that_leads_nowhere_is_unreachable(url: str) -> None:
    with pytest.raises(UpstreamUnreachable):
        address_of(url)


@cases("header", ("X-A", "b\r\nX-C: d"), ("X-A", "b\0"), ("X A", "b"), ("", "b"), ("X-A:", "b"))
def test_header_that_would_break_the_head_is_refused_without_its_value(
    header: tuple[str, str],
) -> None:
    with pytest.raises(UpstreamUnreachable) as caught:
        head_of("POST", address_of("http://a.example"), (header,), user_agent="gw/1")
    assert header[1] not in caught.value.detail.removeprefix("header ")[len(header[0]) :]


async def test_request_without_a_body_says_so_unless_it_is_a_get() -> None:
    async with RawServer(answering) as server, new_http() as http:
        for method in ("GET", "POST"):
            await (await http.open(server.request(b"", method))).read(10)
    heads = [head for head, _ in server.requests]
    assert b"Content-Length" not in heads[0]
    assert b"\r\nContent-Length: 0\r\n" in heads[1]


@both_loops
async def test_wire_closed_while_it_connects_is_unreachable_and_nothing_was_sent() -> None:
    async with RawServer(answering) as server, new_http() as other:
        request = server.request()
        sender = request.sender = SimpleNamespace(is_sent=False)
        http = HttpClient(connect_seconds=5)
        opening = asyncio.ensure_future(http.open(request))
        await asyncio.sleep(0)
        await http.close()
        with pytest.raises(UpstreamUnreachable):
            await opening
        assert not sender.is_sent
        for _ in range(2):  # on a new connection, and on the one kept
            await (await other.open(request)).read(10)
            assert sender.__dict__.pop("is_sent")

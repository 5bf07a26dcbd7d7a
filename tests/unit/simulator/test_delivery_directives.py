"""Directives that decide how the answer arrives: waits, cuts, broken and endless ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Client, Reply, ask, ask_bytes

CHATS = ["chat", "messages", "responses", "native"]


def reply_to(protocol: str, sim: dict[str, Any], **options: Any) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            reply = await ask(simulator, protocol, sim=sim, **options)
            assert simulator.stats.active == 0
            return reply

    return run(one())


async def elapsed_ms(simulator: Simulator, client: Client, message: bytes) -> tuple[float, Reply]:
    start = asyncio.get_running_loop().time()
    client.send(message)
    reply = await client.reply()
    return (asyncio.get_running_loop().time() - start) * 1000, reply


async def test_delays_come_before_the_headers_and_between_events() -> None:
    async with Simulator() as simulator, Client(simulator) as client:
        message = ask_bytes("chat", sim={"delay_headers_ms": 60})
        spent, reply = await elapsed_ms(simulator, client, message)
        assert spent >= 60
        assert reply.status == 200
        sim = {"delay_event_ms": 20, "events": 2}  # and role, finish, [DONE]
        spent, reply = await elapsed_ms(simulator, client, ask_bytes("chat", stream=True, sim=sim))
        assert spent >= 80
        assert len(reply.data) == 5


PAUSES: dict[str, tuple[dict[str, Any], int]] = {
    "before the headers": ({"pause": "headers"}, 0),
    "before the first event": ({"pause": 0}, 0),
    "in the middle": ({"pause": 2}, 2),
}


@pytest.mark.parametrize(("sim", "events"), PAUSES.values(), ids=PAUSES)
async def test_paused_delivery_goes_on_when_told_to(sim: dict[str, Any], events: int) -> None:
    async with Simulator() as simulator, Client(simulator) as client:
        client.send(ask_bytes("chat", stream=True, sim={**sim, "events": 3}))
        await simulator.wait(paused=1, events=events)
        simulator.stats.resume()
        whole = await client.reply()
        assert simulator.stats.paused == 0
        assert (whole.status, len(whole.data)) == (200, 6)
        assert simulator.stats.completed == 1


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("protocol", CHATS)
def test_cut_after_events_sends_these_and_ends_the_connection(protocol: str, how: str) -> None:
    reply = reply_to(protocol, {"cut_after_events": 3, "cut": how, "events": 9}, stream=True)
    assert reply.status == 200
    assert len(reply.events) == 3
    assert not reply.is_whole
    assert reply.end == {"close": "eof", "reset": "reset"}[how]


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("stream", [False, True])
def test_cut_after_bytes_counts_the_body(how: str, stream: bool) -> None:
    for size in (0, 1, 100):
        reply = reply_to("chat", {"cut_after_bytes": size, "cut": how}, stream=stream)
        assert (reply.status, len(reply.body), reply.is_whole) == (200, size, False)
        assert reply.end == {"close": "eof", "reset": "reset"}[how]


def test_cut_further_on_than_the_answer_changes_nothing() -> None:
    for sim in ({"cut_after_events": 1000}, {"cut_after_bytes": 1_000_000}, {"hang": 1000}):
        assert reply_to("chat", sim, stream=True).data[-1] == "[DONE]"
        assert reply_to("chat", sim).is_whole


def test_plain_answer_is_one_event_to_a_cut() -> None:
    nothing = reply_to("chat", {"cut_after_events": 0})
    assert (nothing.status, nothing.body, nothing.end) == (200, b"", "eof")
    assert reply_to("chat", {"cut_after_events": 1}).is_whole


@pytest.mark.parametrize("how", ["close", "reset"])
def test_refuse_ends_the_connection_without_a_byte(how: str) -> None:
    reply = reply_to("chat", {"refuse": True, "cut": how})
    assert reply.raw == b""
    assert reply.end == {"close": "eof", "reset": "reset"}[how]


@pytest.mark.parametrize(
    ("hang", "stream", "arrives"),
    [("headers", False, b""), ("headers", True, b""), (0, False, b"\r\n\r\n"), (2, True, b"data")],
)
async def test_hang_waits_until_the_client_leaves(
    hang: object, stream: bool, arrives: bytes
) -> None:
    async with Simulator() as simulator:
        async with Client(simulator) as client:
            client.send(ask_bytes("chat", stream=stream, sim={"hang": hang}))
            await simulator.wait(active=1)
            if arrives:
                assert arrives in await client.read_some()
            assert simulator.stats.cancelled_by_client == 0
        await simulator.wait(cancelled=1, active=0)
        assert simulator.requests()[-1].outcome == "cancelled"


@pytest.mark.parametrize("protocol", CHATS)
def test_malformed_json_and_utf8_are_just_that(protocol: str) -> None:
    for how in ("json", "utf8"):
        for stream in (False, True):
            reply = reply_to(protocol, {"malformed": how}, stream=stream)
            assert reply.is_whole
            assert reply.status == 200
            if how == "utf8":
                with pytest.raises(UnicodeDecodeError):
                    reply.body.decode()
            else:
                with pytest.raises(json.JSONDecodeError):
                    assert reply.data if stream else reply.json


def test_malformed_html_http_and_chunk() -> None:
    page = reply_to("chat", {"malformed": "html"}, stream=True)
    assert (page.status, page.headers["content-type"]) == (200, "text/html")
    assert reply_to("chat", {"malformed": "http"}).status == 0
    for stream in (False, True):
        broken = reply_to("chat", {"malformed": "chunk"}, stream=stream)
        assert not broken.is_whole
        assert b"ZZ\r\n" in broken.raw


def test_crlf_is_for_every_line_of_a_stream() -> None:
    reply = reply_to("messages", {"crlf": True}, stream=True)
    assert reply.body.count(b"\n") == reply.body.count(b"\r\n") > 10
    assert b"\r\n" not in reply_to("native", {"crlf": False}, stream=True).body


@pytest.mark.parametrize("stream", [False, True])
def test_split_bytes_changes_the_writes_and_not_the_answer(stream: bool) -> None:
    whole = reply_to("chat", {"text": "as one"}, stream=stream)
    split = reply_to("chat", {"text": "as one", "split_bytes": 1}, stream=stream)
    if stream:
        assert len(split.events) == len(whole.events)
    assert len(split.body) == len(whole.body)


@pytest.mark.parametrize("protocol", CHATS)
@pytest.mark.parametrize("stream", [False, True])
def test_endless_stops_with_a_slow_reader_and_ends_with_the_client(
    protocol: str, stream: bool
) -> None:
    async def one() -> int:
        async with Simulator() as simulator:
            async with Client(simulator) as client:
                client.send(ask_bytes(protocol, stream=stream, sim={"endless": True}))
                await client.read_some()
                # nobody reads any more
                await simulator.wait(held_back=1, timeout_seconds=60)
                sent = simulator.stats.bytes_sent
                assert simulator.stats.active == 1
                await client.read_some()
            await simulator.wait(cancelled=1, held_back=0)
            return sent

    assert run(one()) < 16 * 1024 * 1024  # what two sockets' buffers can hold


def test_endless_goes_on_with_good_events_until_its_cut() -> None:
    for protocol in CHATS:
        sim = {"endless": True, "cut_after_events": 50}
        reply = reply_to(protocol, sim, stream=True)
        assert len(reply.events) == 50
        assert b"more " in reply.body
        if protocol == "responses":
            assert [data["sequence_number"] for data in reply.data] == list(range(50))
    cut = reply_to("chat", {"endless": True, "cut_after_bytes": 100_000}, stream=True)
    assert len(cut.body) == 100_000


def test_large_answers_are_delivered_whole() -> None:
    reply = reply_to("chat", {"chars": 2_000_000, "chars_per_event": 1000}, stream=True)
    assert len(reply.data) == 2000 + 3
    assert reply.data[-1] == "[DONE]"


async def test_client_leaving_in_the_middle_is_counted_as_cancelled() -> None:
    async with Simulator() as simulator:
        async with Client(simulator) as client:
            sim = {"events": 1000, "delay_event_ms": 5}
            client.send(ask_bytes("chat", stream=True, sim=sim))
            await client.read_some()
        await simulator.wait(cancelled=1, active=0)
        assert 0 < simulator.stats.events_sent < 1000


def test_close_behind_an_error_event_is_announced() -> None:
    """Else the next request on that connection would be lost without anybody's fault."""
    broken = reply_to("chat", {"error_event": 2}, stream=True)
    assert (broken.headers["connection"], broken.is_whole) == ("close", True)
    assert "connection" not in reply_to("chat", {}, stream=True).headers

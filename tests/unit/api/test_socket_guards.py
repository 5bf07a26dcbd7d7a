"""Each message of a WebSocket is refused as the same POST is, whatever has changed since it opened.

What stands in the head is the hand-shake's, which `test_guards.py` sends as a GET; what is no
message at all closes the socket (`test_socket.py`).
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

import pytest

from channels.answers import KEEPER
from channels.body_budget import BodyBudget
from channels.http.sse import EVENT_BYTES_MAX
from channels.registry import Registry
from channels.shares import OWNER
from gw.api.chat.responses import ResponsesHandler
from tests.support.aio import both_loops, eventually
from tests.support.logs import logs
from tests.support.rows import each
from tests.support.specs import make_channel, make_model
from tests.unit.api.fakes import FakeConfig, World
from tests.unit.api.guards import BODY_BYTES_MAX
from tests.unit.api.socket_guards import Case, body, walk
from tests.unit.api.test_socket import frame, opened
from tests.unit.http.client import request, served

REPEATED = ("retry-after", "x-should-retry")
MIB = 1024 * 1024


def a_world(remembers: bool) -> World:
    world = World(
        registry=Registry.of([make_channel("a")], [make_model("a", id="gpt")]),
        config=FakeConfig(max_body_bytes=BODY_BYTES_MAX),
        bodies=BodyBudget(4 * MIB, 2 * MIB),
    )
    world.keys.remembers = world.money.remembers = remembers
    return world


@dataclass
class Refused:
    """What a client was sent, and what is left of the request."""

    status: int
    error: Any
    headers: dict[str, str]
    rows: list[tuple[str, int, str | None]]


Held = tuple[int, int, int, int]


def held_by(world: World) -> Held:
    """The bytes, permits and places that are taken."""
    permits = world.limits.in_flight("acct_1")
    return world.bodies.used_bytes, permits, len(world.in_flight), world.overload.waiting


async def left_of(world: World, before: Held) -> list[tuple[str, int, str | None]]:
    """The rows that were written, once nothing more is held than before."""
    await eventually(lambda: held_by(world) == before)
    return [(one.protocol, one.http_status, one.model) for one in world.refusals]


async def arranged(case: Case, world: World) -> Held:
    if isawaitable(arranging := case.arrange(world)):
        await arranging
    return held_by(world)


def of_refusal(headers: Mapping[str, str]) -> dict[str, str]:
    kept = {name: one for name, one in headers.items() if name in REPEATED or "ratelimit" in name}
    assert len(headers["x-gateway-trace"]) == 32
    return kept


async def as_post(case: Case, remembers: bool) -> Refused:
    world = a_world(remembers)
    before = await arranged(case, world)
    lines = ("Content-Type: application/json", f"Content-Length: {len(case.body)}")
    async with served(world.application()) as address:
        response = await address.request(request("POST", "/v1/responses", *lines), case.body)
        rows = await left_of(world, before)
    headers = of_refusal(response.headers)
    return Refused(response.status, response.json["error"], headers, rows)


async def as_message(case: Case, remembers: bool) -> Refused:
    world = a_world(remembers)
    async with served(world.application()) as address, opened(address) as socket:
        await eventually(lambda: not len(world.in_flight))
        before = await arranged(case, world)
        kept = case.body.replace(b"{", b'{"type": "response.create", ', 1)
        await socket.send(frame(kept if case.body.endswith(b"}") else case.body))
        event = await socket.event()
        rows = await left_of(world, before)
        headers = of_refusal(event.get("headers", {}))
        assert event["type"] == "error"
        return Refused(event["status"], event["error"], headers, rows)


@logs("request_failed")  # the database is away
@each("case, remembers", walk)
async def test_message_is_refused_as_the_post_is(case: Case, remembers: bool) -> None:
    message, post = await as_message(case, remembers), await as_post(case, remembers)
    assert message == post
    assert message.status == case.status


async def test_answer_to_a_message_counts_for_its_account_until_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that does not read keeps its answer, and is cut once others have to wait for it."""
    world = a_world(remembers=True)
    may_end = asyncio.Event()

    async def on_post(handler: ResponsesHandler) -> None:
        keeper = KEEPER.get()
        assert keeper is not None
        await keeper.keep(MIB)
        assert (OWNER.get(), world.services.answers.used_bytes) == ("acct_1", MIB)
        await may_end.wait()
        handler.set_header("Content-Type", "text/event-stream")
        handler.write(b"data: " + b'"' + b"x" * 2 * MIB + b'"' + b"\n\n")

    monkeypatch.setattr(ResponsesHandler, "on_post", on_post)
    message = frame(body(type="response.create"))
    async with served(world.application()) as address, opened(address) as socket:
        await socket.send(message)
        await eventually(lambda: world.services.answers.used_bytes == MIB)
        may_end.set()
        assert len((await socket.frame())[1]) == 2 * MIB + 2
        await eventually(lambda: world.services.answers.used_bytes == 0)
        may_end.clear()
        await socket.frame()  # the response was not complete, which is another error
        await socket.send(message)
        await eventually(lambda: world.services.answers.used_bytes == MIB)
        (response,) = world.services.answers._answers["acct_1"]
        response.cut()
        assert await socket.client.ended()
        await eventually(lambda: world.services.answers.used_bytes == 0)


def responds_with(monkeypatch: pytest.MonkeyPatch, event: bytes) -> None:
    async def on_post(handler: ResponsesHandler) -> None:
        handler.set_header("Content-Type", "text/event-stream")
        handler.write(event)

    monkeypatch.setattr(ResponsesHandler, "on_post", on_post)


@both_loops
async def test_answer_of_a_message_is_dropped_when_its_slow_reader_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = a_world(remembers=True)
    responds_with(monkeypatch, b'data: "' + b"x" * 16 * MIB + b'"\n\n')
    async with served(world.application()) as address, opened(address) as socket:
        await socket.send(frame(body(type="response.create")))
        answers = world.services.answers._answers
        await eventually(lambda: "acct_1" in answers)
        (answer,) = answers["acct_1"]
        await eventually(lambda: not len(world.in_flight))
        assert answer.unsent() > MIB
        answer.cut()
        got = 0  # the rest is not kept for its client
        with suppress(ConnectionResetError):
            while piece := await socket.client.reader.read(MIB):
                got += len(piece)
        assert got < 16 * MIB
        await eventually(lambda: world.services.answers.used_bytes == 0)


@logs("request_failed")
async def test_message_whose_response_no_event_can_carry_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = a_world(remembers=True)
    responds_with(monkeypatch, b"data: " + b"x" * EVENT_BYTES_MAX + b"\n\n")
    async with served(world.application()) as address, opened(address) as socket:
        await eventually(lambda: not len(world.in_flight))
        before = held_by(world)
        await socket.send(frame(body(type="response.create", input="x" * 100_000)))
        assert await socket.refusal() == (502, "upstream_error")
        await eventually(lambda: held_by(world) == before)
        assert world.services.answers.used_bytes == 0

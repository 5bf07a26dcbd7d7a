"""What is said on each wire is as it was kept, and follows its directive and its seed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Client, Reply, ask, ask_bytes, auth, body_of, request
from tests.unit.simulator.wires import CHATS, FOLDER, said


def reply_to(protocol: str, sim: dict[str, Any], **options: Any) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, protocol, sim=sim, **options)

    return run(one())


@pytest.mark.parametrize("protocol", CHATS)
def test_what_is_said_is_what_was_kept(protocol: str) -> None:
    kept = (FOLDER / f"{protocol}.txt").read_text(encoding="utf-8")
    now = dict(section.split("\n", 1) for section in said(protocol).split("=== ")[1:])
    before = dict(section.split("\n", 1) for section in kept.split("=== ")[1:])
    assert list(now) == list(before)
    for name, body in now.items():
        assert body == before[name], name


@pytest.mark.parametrize("protocol", CHATS)
def test_lengths_are_as_stated(protocol: str) -> None:
    size = 100_000
    for sim in ({"chars": size}, {"huge": size}):
        body = reply_to(protocol, sim).body
        assert size < len(body) < size + 2000
    assert reply_to(protocol, {"events": 40, "chars": 40}, stream=True).body.count(b"data: ") > 40


def test_without_alt_sse_the_stream_is_a_json_array() -> None:
    async def one(sim: dict[str, Any]) -> Reply:
        body = body_of("native", stream=True) | {"sim": sim}
        path = "/v1beta/models/model-a:streamGenerateContent"
        async with Simulator() as simulator, Client(simulator) as client:
            client.send(request("POST", path, json.dumps(body).encode(), **auth("native")))
            return await client.reply()

    reply = run(one({"events": 3}))
    assert reply.headers["content-type"] == "application/json"
    assert len(reply.json) == 4
    assert reply.json[-1]["candidates"][0]["finishReason"] == "STOP"
    broken = run(one({"events": 3, "error_event": 2, "message": "gone"}))
    assert broken.json[2] == {"error": {"code": 503, "message": "gone", "status": "UNAVAILABLE"}}
    assert not run(one({"no_done": True})).body.endswith(b"]")


@pytest.mark.parametrize("protocol", [*CHATS, "images"])
def test_status_answers_in_the_dialects_shape(protocol: str) -> None:
    sim = {"status": 429, "message": "slow down", "retry_after": 3, "headers": {"X-More": "a b"}}
    reply = reply_to(protocol, sim)
    assert reply.status == 429
    assert reply.json["error"]["message"] == "slow down"
    assert (reply.headers["retry-after"], reply.headers["x-more"]) == ("3", "a b")
    assert reply_to("messages", {"status": 529}).json["error"]["type"] == "overloaded_error"
    assert reply_to("native", {"status": 503}).json["error"]["status"] == "UNAVAILABLE"
    assert reply_to("chat", {"status": 599}).json["error"]["type"] == "server_error"


def test_body_replaces_the_answer() -> None:
    page = reply_to("chat", {"status": 502, "body": "<html>no</html>"})
    assert (page.status, page.headers["content-type"]) == (502, "text/html")
    assert page.body == b"<html>no</html>"
    assert reply_to("chat", {"body": {"detail": "odd"}}, stream=True).json == {"detail": "odd"}
    assert reply_to("chat", {"body": "plain"}).headers["content-type"] == "text/plain"
    assert reply_to("chat", {"status": 204}).body == b""
    assert reply_to("chat", {"status": 201}).json["object"] == "chat.completion"


@pytest.mark.parametrize("protocol", CHATS)
def test_the_same_request_and_seed_give_the_same_bytes(protocol: str) -> None:
    async def answers(seed: int) -> list[bytes]:
        async with Simulator(seed=seed) as simulator, Client(simulator) as client:
            found = []
            for _ in range(2):
                client.send(ask_bytes(protocol, stream=True))
                found.append((await client.reply()).raw)
            return found

    first, again = run(answers(7))
    assert first == again
    assert run(answers(7))[0] == first
    assert run(answers(8))[0] != first

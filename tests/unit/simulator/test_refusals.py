"""What is refused, in the shape of the dialect that refuses."""

from __future__ import annotations

from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import PATHS, Client, Reply, ask_bytes, auth, call, request

WIRES = list(PATHS)


def post(path: str, body: object, **headers: str) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await call(simulator, "POST", path, body, **headers)

    return run(one())


def check_error(protocol: str, reply: Reply, status: int, kind: str) -> None:
    """The error has the dialect's shape and the kind this dialect gives to the status."""
    assert reply.status == status
    error = reply.json["error"]
    assert error["message"]
    if protocol == "messages":
        assert reply.json["type"] == "error"
        assert set(error) == {"type", "message"}
        assert error["type"] == kind
    elif protocol == "native":
        assert (error["code"], error["status"]) == (status, kind)
    else:
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("protocol", WIRES)
def test_missing_key_is_401_in_the_dialects_shape(protocol: str) -> None:
    reply = post(PATHS[protocol], {})
    kind = {"messages": "authentication_error", "native": "UNAUTHENTICATED"}.get(protocol, "")
    check_error(protocol, reply, 401, kind)


@pytest.mark.parametrize("protocol", WIRES)
@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b"{}", b'{"model": 3}', b"\xff", b"NaN"])
def test_bad_body_is_400_in_the_dialects_shape(protocol: str, body: bytes) -> None:
    reply = post(PATHS[protocol], body, **auth(protocol))
    kind = {"messages": "invalid_request_error", "native": "INVALID_ARGUMENT"}.get(protocol, "")
    check_error(protocol, reply, 400, kind)


@pytest.mark.parametrize(
    ("protocol", "members"),
    [
        ("chat", {"messages": []}),
        ("chat", {"messages": [{"role": "robot", "content": "x"}]}),
        ("chat", {"messages": [{"role": "user", "content": 3}]}),
        ("chat", {"stream": "yes"}),
        (
            "chat",
            {
                "tool_choice": {"type": "function", "function": {"name": "a"}},
                "tools": [{"type": "x"}],
            },
        ),
        ("messages", {"messages": []}),
        ("messages", {"max_tokens": 0}),
        ("messages", {"max_tokens": None}),
        ("messages", {"messages": [{"role": "system", "content": "x"}]}),
        ("messages", {"messages": [{"role": "user", "content": 3}]}),
        ("responses", {"input": [{"role": "user", "content": 3}]}),
        ("responses", {"input": "hello"}),
        ("responses", {"input": []}),
        ("responses", {"previous_response_id": "resp_1"}),
        ("native", {"contents": []}),
        ("native", {"contents": [{"role": "assistant", "parts": []}]}),
        ("native", {"contents": [{"parts": 3}]}),
    ],
)
def test_wrong_members_are_400(protocol: str, members: dict[str, Any]) -> None:
    turn = {"role": "user", "content": "x"}
    wholes: dict[str, dict[str, Any]] = {
        "chat": {"model": "m", "messages": [turn]},
        "messages": {"model": "m", "max_tokens": 9, "messages": [turn]},
        "responses": {"model": "m", "input": [turn]},
        "native": {"contents": [{"parts": [{"text": "x"}]}]},
    }
    whole = wholes[protocol]
    assert post(PATHS[protocol], whole, **auth(protocol)).status == 200
    assert post(PATHS[protocol], whole | members, **auth(protocol)).status == 400


def test_text_that_is_no_utf8_is_400() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"\xff\xfe"}]}'
    assert post(PATHS["chat"], body, **auth("chat")).status == 400


def test_messages_without_its_version_is_400() -> None:
    reply = post(PATHS["messages"], {"model": "m"}, x_api_key="k")
    check_error("messages", reply, 400, "invalid_request_error")


def test_unknown_path_and_wrong_method() -> None:
    assert post("/v1/nothing", {}).status == 404

    async def get() -> Reply:
        async with Simulator() as simulator:
            return await call(simulator, "GET", PATHS["chat"])

    assert run(get()).status == 405


def test_bytes_that_are_no_request_end_the_connection() -> None:
    async def garbage() -> Reply:
        async with Simulator() as simulator, Client(simulator) as client:
            client.send(b"\x00\x01\x02\r\n\r\n")
            reply = await client.reply()
            assert await client.at_end()
            return reply

    assert run(garbage()).status == 400


def test_requests_on_one_connection_are_answered_in_order() -> None:
    async def three() -> list[bytes]:
        async with Simulator() as simulator, Client(simulator) as client:
            for wait in (30, 0, 0):
                sim = {"text": str(wait), "delay_headers_ms": wait}
                client.send(ask_bytes("chat", sim=sim))
            await simulator.wait(completed=3)
            data = b""
            while data.count(b'"content":"') < 3:
                data += await client.read_some()
            return [piece[:2] for piece in data.split(b'"content":"')[1:]]

    assert run(three()) == [b"30", b'0"', b'0"']


def test_connection_close_is_honoured() -> None:
    async def one() -> bool:
        async with Simulator() as simulator, Client(simulator) as client:
            client.send(request("POST", "/v1/nothing", b"", connection="close"))
            await client.reply()
            return await client.at_end()

    assert run(one())


def test_expect_continue_is_answered() -> None:
    async def one() -> bytes:
        async with Simulator() as simulator, Client(simulator) as client:
            whole = request("POST", "/v1/nothing", b"abc", expect="100-continue")
            client.send(whole[:-3])
            first = await client.read_some()
            client.send(whole[-3:])
            assert b"404" in await client.read_some()
            return first

    assert run(one()).startswith(b"HTTP/1.1 100 ")

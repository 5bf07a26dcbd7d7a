"""The four chat protocols on one key, each on channels that speak it: whole, streamed, refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.support.aio import run
from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests

USAGE = {"input": 1000, "output": 100, "cached": 400}
# 600 fresh x 1 + 400 cached x 0.1 + 100 out x 10 USD per million.
COST_NANO_USD = 1_640_000

SAID = "Hello"
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": SAID}]}),
    "messages": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": SAID}], "max_tokens": 500},
    ),
    "responses": ("/v1/responses", {"input": SAID, "instructions": "Be brief."}),
    "native": (
        "/v1beta/models/sim-model:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": SAID}]}]},
    ),
}
ENDS = {
    "chat": b"data: [DONE]",
    "messages": b'"message_stop"}',
    "responses": b'"response.completed"',
    "native": b'"finishReason"',
}


@pytest.fixture(scope="module")
def h(postgres: PostgresForTests) -> Iterator[House]:
    everything = ["chat", "messages", "responses", "native"]
    with shared_house(
        postgres,
        channels=[channel("all", protocols=everything), channel("chat-only")],
        models=[model("sim-model", "all"), model("chat-model", "chat-only")],
    ) as built:
        yield built


async def post(
    h: House, protocol: str, *, stream: bool = False, query: str = "", **more: Any
) -> tuple[int, dict[str, str], bytes]:
    path, body = CALLS[protocol]
    body = {**body, **more}
    if protocol == "native":
        if stream:
            path = path.replace(":generateContent", ":streamGenerateContent")
        path = path.replace("sim-model", body.pop("model", "sim-model"))
    else:
        body = {"model": "sim-model", **body, "stream": stream}
    headers = {"x-api-key": h.key}
    async with (
        aiohttp.ClientSession() as session,
        session.post(h.gateway.url + path + query, json=body, headers=headers) as answer,
    ):
        return answer.status, dict(answer.headers), await answer.read()


@pytest.mark.parametrize("protocol", CALLS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_call_is_answered_in_its_protocol_and_charged_by_its_usage(
    h: House, protocol: str, stream: bool
) -> None:
    before = h.client.remaining_nano_usd()
    query = "?alt=sse" if stream and protocol == "native" else ""
    status, headers, body = run(post(h, protocol, stream=stream, query=query, sim={"usage": USAGE}))
    assert status == 200, body
    assert "X-Protocol-Translation" not in headers
    if stream:
        assert headers["Content-Type"].startswith("text/event-stream")
        assert ENDS[protocol] in body
    else:
        assert json.loads(body)
    assert before - h.client.remaining_nano_usd() == COST_NANO_USD


def test_native_stream_without_sse_is_one_json_array(h: House) -> None:
    status, headers, body = run(post(h, "native", stream=True, sim={"usage": USAGE}))
    assert status == 200
    assert headers["Content-Type"].startswith("application/json")
    chunks = json.loads(body)
    assert isinstance(chunks, list)
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize("protocol", CALLS)
def test_cut_stream_ends_early_without_its_end(h: House, protocol: str) -> None:
    query = "?alt=sse" if protocol == "native" else ""
    sim = {"cut_after_events": 4, "events": 20, "delay_event_ms": 1}
    status, _, body = run(post(h, protocol, stream=True, query=query, sim=sim))
    assert status == 200
    assert body
    assert ENDS[protocol] not in body


@pytest.mark.parametrize(
    ("protocol", "status", "found"),
    [
        ("messages", 400, {"type": "error", "error": {"type": "not_found_error"}}),
        ("responses", 400, {"error": {"code": "model_not_found"}}),
        ("native", 400, {"error": {"code": 400, "status": "NOT_FOUND"}}),
    ],
)
def test_unknown_model_is_refused_in_the_protocols_own_shape(
    h: House, protocol: str, status: int, found: dict[str, Any]
) -> None:
    got, _, body = run(post(h, protocol, model="no-such-model"))
    assert got == status
    told = json.loads(body)
    assert told.get("type") == found.get("type")
    assert found["error"].items() <= told["error"].items()


@pytest.mark.parametrize("protocol", ["messages", "responses", "native"])
def test_protocol_without_a_channel_is_503(h: House, protocol: str) -> None:
    status, _, body = run(post(h, protocol, model="chat-model"))
    assert status == 503
    error = json.loads(body)["error"]
    assert error.get("code") in ("no_channel_available", 503, None)
    assert error.get("type", "overloaded_error") in ("overloaded_error", "server_error")


def test_previous_response_id_is_refused_by_name(h: House) -> None:
    status, _, body = run(post(h, "responses", previous_response_id="resp_1"))
    assert status == 400
    assert "previous_response_id" in json.loads(body)["error"]["message"]

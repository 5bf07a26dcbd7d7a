"""Built-in tools of chat-completions: which channels run them, and how their streams end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from channels.errors import UpstreamCut
from channels.registry import ChannelSpec
from gw.calls.request import ChatCall
from tests.support.aio import eventually, jump
from tests.support.specs import make_channel, make_model
from tests.unit.calls.fake_wire import FOR_EVER, Script, Step, answer
from tests.unit.calls.world import TIMEOUT_SECONDS, Told, World, world
from tests.unit.calls.writer import RecordingWriter
from tests.unit.translation.responses.pieces import CREATED, completed, text
from tests.unit.translation.wire import data_of

SEARCH, DRAW = "web_search", "image_generation"
SPEAKS = frozenset({"chat", "responses"})


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def stream(*steps: dict[str, Any] | Step) -> Script:
    """An upstream's stream; an event is a read of its own."""
    return answer(*(sse(step) if isinstance(step, dict) else step for step in steps))


GOOD = stream(CREATED, text("Hi"), completed())
FAILED = completed(status="failed", error={"code": "server_error", "message": "api-key-of-a broke"})
ERROR = {"type": "error", "error": {"code": "server_error", "message": "api-key-of-a broke"}}


def channels(*names: str, **changes: Any) -> list[ChannelSpec]:
    """Channels that run web searches, in this order of priority."""
    usual = {"protocols": SPEAKS, "tools": frozenset({SEARCH}), **changes}
    return [make_channel(name, priority=at, **usual) for at, name in enumerate(names, start=1)]


def prepared(w: World, *tools: str) -> ChatCall:
    """A call with these tools, as the endpoint makes it."""
    call = w.prepare(stream=True, tools=[{"type": tool} for tool in tools])
    return replace(call, tools=tools, tools_protocol="responses")


async def asking(w: World, *tools: str, writer: RecordingWriter | None = None) -> Told:
    """One call with these tools from its beginning to its end."""
    call, writer = prepared(w, *tools), writer or RecordingWriter()
    w.begin(call, writer)
    return await w.end(call, writer)


def closed_with(message: str) -> list[Any]:
    error = {"message": message, "type": "api_error", "code": "upstream_error"}
    return [{"error": error}, "[DONE]"]


def content(told: Told) -> str:
    """The text the client was sent."""
    chunks = [one for one in data_of(told.writer.sent) if one != "[DONE]"]
    deltas = [one["choices"][0]["delta"] for one in chunks if one.get("choices")]
    return "".join(delta.get("content", "") for delta in deltas)


async def test_answer_is_chat_and_charged_by_what_responses_states() -> None:
    async with world(a=[GOOD], channels=channels("a")) as w:
        told = await asking(w, SEARCH)
        assert content(told) == "Hi"
        assert told.writer.sent.endswith(b"data: [DONE]\n\n")
        assert told.writer.headers == {}
        assert told.status == ("success", None)
        assert told.tokens == (10, 5, 4)
        assert told.cost == 6 * 1000 + 4 * 100 + 5 * 10_000
        assert told.call.facts.protocol == "chat"
        assert w.wire.requests[0].url.endswith("/v1/responses")
        assert told.row is not None
        assert told.row["detail"]["translation"] == "built-in tools"


async def test_incomplete_answer_is_charged_and_complete_for_the_client() -> None:
    script = stream(CREATED, text("Hi"), completed(status="incomplete"))
    async with world(a=[script], channels=channels("a")) as w:
        told = await asking(w, SEARCH)
        assert b'"finish_reason":"length"' in told.writer.sent
        assert (told.status, told.tokens) == (("success", None), (10, 5, 4))


# --- Failures after something was sent ---


@pytest.mark.parametrize(
    ("steps", "message", "tokens", "outcome"),
    [
        ([], "The upstream ended the stream before it was complete.", 1, "cut"),
        ([UpstreamCut()], "The upstream ended the stream before it was complete.", 1, "cut"),
        ([ERROR], "[redacted] broke", 1, "cut"),
        ([FAILED], "[redacted] broke", 5, "error_event"),
        ([ERROR, 3, FAILED], "[redacted] broke", 5, "error_event"),
    ],
    ids=["ends", "connection lost", "error event", "failed", "error event and failed"],
)
async def test_failure_in_the_middle_is_told_and_terminated(
    steps: Sequence[Any], message: str, tokens: int, outcome: str
) -> None:
    script = stream(CREATED, text("Hi"), *steps)
    async with world(a=[script], b=[GOOD], channels=channels("a", "b")) as w:
        told = await asking(w, SEARCH)
        chunks = data_of(told.writer.sent)
        assert chunks[-2:] == closed_with(message)
        assert chunks.count("[DONE]") == 1
        assert content(told) == "Hi"
        assert told.status == ("error", "upstream_error")
        assert told.tokens[1] == tokens
        assert told.cost > 0
        assert w.wire.tried == ["a"]
        assert w.verdict("a") == "failure"
        page = w.metrics.render("")[0].decode()
        assert f'outcome="{outcome}"' in page


async def test_time_running_out_is_told_and_terminated() -> None:
    script = stream(CREATED, text("Hi"), FOR_EVER)
    async with world(a=[script], channels=channels("a")) as w:
        writer = RecordingWriter()
        asked = asyncio.ensure_future(asking(w, SEARCH, writer=writer))
        await eventually(lambda: b"Hi" in writer.sent)
        jump(TIMEOUT_SECONDS + 1)
        told = await asked
        message = "The call took longer than the gateway allows."
        assert data_of(told.writer.sent)[-2:] == closed_with(message)
        assert told.status == ("interrupted", "upstream_timeout")


async def test_client_that_leaves_pays_for_what_was_delivered() -> None:
    script = stream(CREATED, text("Hello there"), text(" and more"), FOR_EVER)
    async with world(a=[script], channels=channels("a")) as w:
        told = await asking(w, SEARCH, writer=RecordingWriter(leaves_after=1))
        assert told.status == ("interrupted", "client_disconnected")
        assert told.tokens[1] > 0


# --- Before anything was sent ---


@pytest.mark.parametrize(
    "script",
    [
        (UpstreamCut(),),
        answer(status=503),
        stream(CREATED),
        stream(CREATED, ERROR),
        stream(CREATED, FAILED),
        stream(CREATED, ERROR, FAILED),
        stream(CREATED, {"type": "response.web_search_call.searching"}, UpstreamCut()),
    ],
    ids=["lost", "503", "cut", "error", "failed", "error and failed", "cut while searching"],
)
async def test_next_channel_with_the_tool_answers(script: Script) -> None:
    specs = [
        *channels("a"),
        *channels("z", tools=frozenset()),
        *channels("y", protocols=frozenset({"chat"})),
        *channels("b"),
    ]
    given: dict[str, Sequence[Script]] = {"a": [script], "b": [GOOD], "z": [], "y": []}
    async with world(given, channels=specs) as w:
        told = await asking(w, SEARCH)
        assert content(told) == "Hi"
        assert w.wire.tried == ["a", "b"]
        assert told.status == ("success", None)
        assert len(told.attempts) == 1


@pytest.mark.parametrize(
    "steps",
    [[FAILED], [ERROR], [ERROR, UpstreamCut()], [ERROR, FAILED], [ERROR, FOR_EVER]],
    ids=["failed", "error", "error and lost", "error and failed", "error and silence"],
)
async def test_failure_everywhere_is_an_error_answer_in_the_upstreams_words(
    steps: list[Any],
) -> None:
    async with world(a=[stream(CREATED, *steps)], channels=channels("a")) as w:
        told = await asking(w, SEARCH)
        assert told.error is not None
        assert (told.error.http_status, told.error.kind.code) == (502, "upstream_error")
        assert told.error.message in ("[redacted] broke", "[redacted] broke")
        assert told.attempts == ["upstream_error"]
        assert (told.status, told.cost) == (("error", "upstream_error"), 0)


async def test_channel_that_is_busy_is_no_missing_tool() -> None:
    specs = channels("a", max_concurrency=1)
    async with world(a=[stream(CREATED, FOR_EVER)], channels=specs) as w:
        first, writer = prepared(w, SEARCH), RecordingWriter()
        w.begin(first, writer)
        while not w.wire.requests:
            await w.settled()
        told = await asking(w, SEARCH)
        assert told.error is not None
        assert told.error.kind.code == "no_channel_available"
        writer.leave()
        await w.end(first, writer)


async def test_model_without_channels_has_none_available() -> None:
    for model in (make_model(), make_model("a", endpoint_type="images_generations")):
        async with world(a=[GOOD], channels=channels("a"), model=model) as w:
            told = await asking(w, SEARCH)
            assert told.error is not None
            assert told.error.kind.code == "no_channel_available"

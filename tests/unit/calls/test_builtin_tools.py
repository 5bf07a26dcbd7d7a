"""Built-in tools: which channels run them, and how their streams end."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from channels.errors import UpstreamCut
from channels.registry import ChannelSpec
from gw.calls.builtin_tools import lacking_tool
from gw.calls.chat_request import ChatCall
from tests.support.aio import eventually, jump
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model
from tests.unit.calls.world import (
    FOR_EVER,
    TIMEOUT_SECONDS,
    CallResult,
    RecordingWriter,
    Script,
    Step,
    World,
    in_order,
    response_of,
    world,
)
from tests.unit.translation.responses.pieces import CREATED, completed, text
from tests.unit.translation.translated import data_of

SEARCH, DRAW = "web_search", "image_generation"
SPEAKS = frozenset({"chat", "responses"})


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def stream(*steps: dict[str, Any] | Step) -> Script:
    """An upstream's stream; an event is a read of its own."""
    return response_of(*(sse(step) if isinstance(step, dict) else step for step in steps))


GOOD = stream(CREATED, text("Hi"), completed())
FAILED = completed(status="failed", error={"code": "server_error", "message": "api-key-of-a broke"})
ERROR = {"type": "error", "error": {"code": "server_error", "message": "api-key-of-a broke"}}


def channels(*names: str, **changes: Any) -> list[ChannelSpec]:
    """Channels that run web searches, in this order of priority."""
    usual = {"protocols": SPEAKS, "tools": frozenset({SEARCH}), **changes}
    return in_order(names, **usual)


def prepared(w: World, *tools: str) -> ChatCall:
    """A call with these tools, as the endpoint makes it."""
    call = w.prepare(stream=True, tools=[{"type": tool} for tool in tools])
    return replace(call, tools=tools, tools_protocol="responses")


async def called_with(w: World, *tools: str, writer: RecordingWriter | None = None) -> CallResult:
    """One call with these tools from its beginning to its end."""
    call, writer = prepared(w, *tools), writer or RecordingWriter()
    w.begin(call, writer)
    return await w.end(call, writer)


def closed_with(message: str) -> list[Any]:
    error = {"message": message, "type": "api_error", "code": "upstream_error"}
    return [{"error": error}, "[DONE]"]


def content(result: CallResult) -> str:
    """The text the client was sent."""
    chunks = [one for one in data_of(result.writer.sent) if one != "[DONE]"]
    deltas = [one["choices"][0]["delta"] for one in chunks if one.get("choices")]
    return "".join(delta.get("content", "") for delta in deltas)


async def test_answer_is_chat_and_charged_by_what_responses_states() -> None:
    async with world(a=[GOOD], channels=channels("a")) as w:
        result = await called_with(w, SEARCH)
        assert content(result) == "Hi"
        assert result.writer.sent.endswith(b"data: [DONE]\n\n")
        assert result.writer.headers == {}
        assert result.status == ("success", None)
        assert result.tokens == (10, 5, 4)
        assert result.cost == 6 * 1000 + 4 * 100 + 5 * 10_000
        assert result.call.facts.protocol == "chat"
        assert w.http.requests[0].url.endswith("/v1/responses")
        assert result.logged["detail"]["translation"] == "built-in tools"


async def test_incomplete_answer_is_charged_and_complete_for_the_client() -> None:
    script = stream(CREATED, text("Hi"), completed(status="incomplete"))
    async with world(a=[script], channels=channels("a")) as w:
        result = await called_with(w, SEARCH)
        assert b'"finish_reason":"length"' in result.writer.sent
        assert (result.status, result.tokens) == (("success", None), (10, 5, 4))


@cases(
    "steps, message, tokens, outcome",
    ([], "The upstream ended the stream before it was complete.", 1, "cut"),
    ([UpstreamCut()], "The upstream ended the stream before it was complete.", 1, "cut"),
    ([ERROR], "[redacted] broke", 1, "cut"),
    ([FAILED], "[redacted] broke", 5, "error_event"),
    ([ERROR, 3, FAILED], "[redacted] broke", 5, "error_event"),
)
async def test_failure_in_the_middle_is_an_error_event_and_terminated(
    steps: Sequence[Any], message: str, tokens: int, outcome: str
) -> None:
    script = stream(CREATED, text("Hi"), *steps)
    async with world(a=[script], b=[GOOD], channels=channels("a", "b")) as w:
        result = await called_with(w, SEARCH)
        chunks = data_of(result.writer.sent)
        assert chunks[-2:] == closed_with(message)
        assert chunks.count("[DONE]") == 1
        assert content(result) == "Hi"
        assert result.status == ("error", "upstream_error")
        assert result.tokens[1] == tokens
        assert result.cost > 0
        assert w.http.tried == ["a"]
        assert w.verdict("a") == "failure"
        page = w.metrics.render("")[0].decode()
        assert f'outcome="{outcome}"' in page


async def test_time_running_out_is_an_error_event_and_terminated() -> None:
    script = stream(CREATED, text("Hi"), FOR_EVER)
    async with world(a=[script], channels=channels("a")) as w:
        writer = RecordingWriter()
        request = asyncio.ensure_future(called_with(w, SEARCH, writer=writer))
        await eventually(lambda: b"Hi" in writer.sent)
        jump(TIMEOUT_SECONDS + 1)
        result = await request
        message = "The call took longer than the gateway allows."
        assert data_of(result.writer.sent)[-2:] == closed_with(message)
        assert result.status == ("interrupted", "upstream_timeout")


@cases(
    "script",
    (UpstreamCut(),),
    response_of(status=503),
    stream(CREATED),
    stream(CREATED, ERROR),
    stream(CREATED, FAILED),
    stream(CREATED, ERROR, FAILED),
    stream(CREATED, {"type": "response.web_search_call.searching"}, UpstreamCut()),
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
        result = await called_with(w, SEARCH)
        assert content(result) == "Hi"
        assert w.http.tried == ["a", "b"]
        assert result.status == ("success", None)
        assert len(result.attempts) == 1


@cases("steps", [FAILED], [ERROR], [ERROR, UpstreamCut()], [ERROR, FAILED], [ERROR, FOR_EVER])
async def test_failure_everywhere_is_an_error_answer_in_the_upstreams_words(
    steps: list[Any],
) -> None:
    async with world(a=[stream(CREATED, *steps)], channels=channels("a")) as w:
        result = await called_with(w, SEARCH)
        assert (result.refusal.http_status, result.refusal.kind.code) == (502, "upstream_error")
        assert result.refusal.message in ("[redacted] broke", "[redacted] broke")
        assert result.attempts == ["upstream_error"]
        assert (result.status, result.cost) == (("error", "upstream_error"), 0)


async def test_channel_that_is_busy_is_no_missing_tool() -> None:
    specs = channels("a", max_concurrency=1)
    async with world(a=[stream(CREATED, FOR_EVER)], channels=specs) as w:
        first, writer = prepared(w, SEARCH), RecordingWriter()
        w.begin(first, writer)
        while not w.http.requests:
            await w.settled()
        result = await called_with(w, SEARCH)
        assert result.refusal.kind.code == "no_channel_available"
        writer.leave()
        await w.end(first, writer)


NONE: frozenset[str] = frozenset()
ALL = frozenset({"chat", "messages", "responses", "native"})


def lacking(
    tools: list[str],
    *channels: tuple[set[str], set[str]],
    protocol: str = "chat",
    reached: tuple[str, ...] = (),
    **model: Any,
) -> str | None:
    """For channels of these protocols and tools."""
    specs = [
        make_channel(f"c{at}", protocols=frozenset(spoken), tools=frozenset(has))
        for at, (spoken, has) in enumerate(channels)
    ]
    return lacking_tool(
        tools,
        make_model(*(spec.id for spec in specs), **model),
        {spec.id: spec for spec in specs},
        protocol=protocol,
        run_over="responses" if protocol == "chat" else protocol,
        reached=reached,
    )


BOTH = ({"chat", "responses"}, {SEARCH, DRAW})
SEARCHES = ({"chat", "responses"}, {SEARCH})
DRAWS = ({"chat", "responses"}, {DRAW})
PLAIN = ({"chat", "responses"}, set[str]())


@cases(
    "tools, channels, expected",
    ([SEARCH], [PLAIN], SEARCH),
    ([DRAW], [SEARCHES], DRAW),
    ([SEARCH, DRAW], [SEARCHES], DRAW),
    ([SEARCH, DRAW], [SEARCHES, DRAWS], SEARCH),  # both, but nowhere together
    ([SEARCH], [({"chat"}, {SEARCH})], SEARCH),
    ([SEARCH], [({"messages"}, {SEARCH})], None),  # no channel at all
    (["telepathy"], [BOTH], "telepathy"),
    ([SEARCH, "code_interpreter"], [BOTH], "code_interpreter"),
    ([SEARCH], [], None),
    ([], [PLAIN], None),
    ([SEARCH, DRAW], [PLAIN, BOTH], None),
    ([DRAW], [({"responses"}, {DRAW})], None),
)
def test_chat_completions_needs_a_channel_that_runs_the_tool_over_responses(
    tools: list[str], channels: list[tuple[set[str], set[str]]], expected: str | None
) -> None:
    assert lacking(tools, *channels) == expected


@cases(
    "capabilities, expected",
    (NONE, None),
    ({"web_search", "image_gen"}, None),
    ({"web_search"}, DRAW),
    ({"image_gen", "tools"}, SEARCH),
    ({"json"}, SEARCH),
)
def test_flags_of_a_model_bound_what_is_run_for_it(
    capabilities: frozenset[str], expected: str | None
) -> None:
    tools = [SEARCH, DRAW]
    assert lacking(tools, BOTH, capabilities=frozenset(capabilities)) == expected
    channel = (set(ALL), {SEARCH, DRAW})
    for protocol in ("messages", "responses", "native"):
        # There a request goes through as it came, and the upstream knows its models.
        assert lacking(tools, channel, protocol=protocol, capabilities=frozenset({"json"})) is None


@cases("protocol", "messages", "responses", "native")
def test_other_protocols_need_a_channel_that_speaks_them_and_has_the_tool(protocol: str) -> None:
    assert lacking([SEARCH], ({protocol}, {SEARCH}), protocol=protocol) is None
    assert lacking([SEARCH], ({protocol}, {DRAW}), protocol=protocol) == SEARCH
    assert lacking([SEARCH], ({"chat"}, {SEARCH}), protocol=protocol) is None  # no channel: a 503
    assert lacking(["code_execution"], ({protocol}, set()), protocol=protocol) is None


@cases("tool", SEARCH, "code_execution")
def test_translation_reaches_a_model_but_takes_no_tool_along(tool: str) -> None:
    channel = ({"chat"}, {SEARCH, DRAW})
    assert lacking([tool], channel, protocol="messages", reached=("chat",)) == tool
    assert lacking([tool], ({"messages"}, set()), reached=("messages",)) == tool


def test_model_of_another_endpoint_has_no_channel_here() -> None:
    assert lacking([SEARCH], PLAIN, endpoint_type="images_generations") is None

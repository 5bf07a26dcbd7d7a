"""Outcome and evidence of an answer, and what is charged: the policy table, through whole calls."""

from __future__ import annotations

from typing import Any

import pytest

from channels.errors import UpstreamCut
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import Script, answer
from tests.unit.calls.world import MESSAGES_TOKENS, world

INPUT, OUTPUT = 1000, 10_000  # nano-USD per token
ESTIMATED_INPUT = MESSAGES_TOKENS
HUGE = 10**15

ABSURD: dict[str, Any] = {
    "negative": sse.usage_of(-5, 7),
    "no numbers": {"prompt_tokens": "many", "completion_tokens": 7},
    "half a number": {"prompt_tokens": 10.5, "completion_tokens": 7},
    "one alone": {"prompt_tokens": 10},
    "no object": 17,
    "more than anything": sse.usage_of(HUGE, HUGE),
    "huge output": sse.usage_of(10, HUGE),
}


@pytest.mark.parametrize("stated", ABSURD.values(), ids=ABSURD.keys())
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_usage_that_cannot_be_is_not_believed(stated: Any, stream: bool) -> None:
    last = sse.event({"choices": [], "usage": stated})
    script = (
        answer(sse.delta("Hello"), last, sse.DONE)
        if stream
        else answer(sse.whole("Hello", usage=stated))
    )
    async with world(a=[script]) as w:
        told = await w.call(stream=stream)
        assert told.status == ("success", None)
        assert told.tokens == (ESTIMATED_INPUT, 2, 0)  # five characters
        assert told.cost == ESTIMATED_INPUT * INPUT + 2 * OUTPUT
        assert told.row is not None
        assert told.row["detail"]["basis"] == "estimated"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_answer_without_usage_is_estimated(stream: bool) -> None:
    script = (
        answer(sse.delta("Hel"), sse.delta("lo", finish="stop"), sse.DONE)
        if stream
        else answer(sse.whole("Hello"))
    )
    async with world(a=[script]) as w:
        told = await w.call(stream=stream)
        assert told.tokens == (ESTIMATED_INPUT, 2, 0)
        assert told.cost == ESTIMATED_INPUT * INPUT + 2 * OUTPUT


async def test_null_usage_in_other_chunks_is_no_usage() -> None:
    script = answer(
        sse.delta("Hel", usage=None),
        sse.delta("lo", usage=None),
        sse.usage_event(100, 7),
        sse.DONE,
    )
    async with world(a=[script]) as w:
        told = await w.call(stream=True)
        assert told.tokens == (100, 7, 0)
        assert told.writer.sent == b"".join([*script[1:3], sse.DONE])  # type: ignore[list-item]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_explicit_zero_is_believed(stream: bool) -> None:
    script = (
        answer(sse.delta("Hello"), sse.usage_event(0, 0), sse.DONE)
        if stream
        else answer(sse.whole("Hello", usage=sse.usage_of(0, 0)))
    )
    async with world(a=[script]) as w:
        told = await w.call(stream=stream)
        assert (told.status, told.cost, told.tokens) == (("success", None), 0, (0, 0, 0))


async def test_usage_counts_even_when_the_answer_is_empty() -> None:
    async with world(a=[answer(sse.whole("", usage=sse.usage_of(80, 30)))]) as w:
        told = await w.call()
        assert (told.tokens, told.cost) == ((80, 30, 0), 80 * INPUT + 30 * OUTPUT)


async def test_empty_answer_without_usage_is_charged_for_its_input_only() -> None:
    async with world(a=[answer(sse.delta(finish="stop"), sse.DONE)]) as w:
        told = await w.call(stream=True)
        assert (told.tokens, told.cost) == ((ESTIMATED_INPUT, 0, 0), ESTIMATED_INPUT * INPUT)


async def test_thinking_and_tool_calls_count_as_output() -> None:
    thought = sse.event({"choices": [{"delta": {"reasoning_content": "x" * 10}}]})
    called = {"function": {"name": "look", "arguments": '{"a":1}'}}
    tool = sse.event({"choices": [{"delta": {"tool_calls": [{"index": 0, **called}]}}]})
    async with world(a=[answer(thought, tool, UpstreamCut())]) as w:
        told = await w.call(stream=True)
        assert told.tokens == (ESTIMATED_INPUT, 6, 0)  # 10 + 4 + 7 characters


CUT: list[tuple[str, Script, tuple[int, int, int]]] = [
    ("by the characters emitted", (sse.delta("x" * 9), UpstreamCut()), (ESTIMATED_INPUT, 3, 0)),
    (
        "by usage that had come",
        (sse.delta("x"), sse.usage_event(50, 4), UpstreamCut()),
        (50, 4, 0),
    ),
    (
        "by the running count of the last chunk",
        (
            sse.delta("x", usage=sse.usage_of(50, 1)),
            sse.delta("y", usage=sse.usage_of(50, 2)),
            UpstreamCut(),
        ),
        (50, 2, 0),
    ),
    ("not at all, when nothing was said", (sse.delta(), UpstreamCut()), (0, 0, 0)),
]


@pytest.mark.parametrize(("steps", "tokens"), [c[1:] for c in CUT], ids=[c[0] for c in CUT])
async def test_cut_stream_is_charged(steps: Script, tokens: tuple[int, int, int]) -> None:
    async with world(a=[answer(*steps)]) as w:
        told = await w.call(stream=True)
        assert told.status == ("error", "upstream_error")
        assert told.tokens == tokens
        assert told.cost == tokens[0] * INPUT + tokens[1] * OUTPUT


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_error_in_place_of_an_answer_is_free(stream: bool) -> None:
    """Its text is not output, and its input was not answered."""

    body = sse.error_body("a long text " * 50)
    script = answer(sse.error_event("x" * 500), sse.DONE) if stream else answer(body)
    async with world(a=[script]) as w:
        told = await w.call(stream=stream)
        if stream:  # no other channel is there to ask: its bytes are the client's, as they came
            assert told.writer.sent == sse.error_event("x" * 500) + sse.DONE
        else:
            assert told.error is not None
            assert told.error.http_status == 502
        assert told.status == ("error", "upstream_error")
        assert (told.cost, told.tokens) == (0, (0, 0, 0))
        assert w.verdict("a") == "failure"

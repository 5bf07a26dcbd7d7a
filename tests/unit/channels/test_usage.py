"""The usage of a response in odd forms: the same rules for every protocol."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.meter import ResponseMeter
from channels.dialects.token_counts import PartialUsage, Usage, UsageParts
from channels.dialects.usage import Counts, usage_of
from tests.support.rows import cases, each
from tests.unit.channels.replay import new_meter

# A usage of each protocol: input, output, cached, written, reasoning and total, if it states them.
NAMES: dict[str, dict[str, str]] = {
    "chat": {
        "input": "prompt_tokens",
        "output": "completion_tokens",
        "cached": "prompt_tokens_details.cached_tokens",
        "written": "prompt_tokens_details.cache_write_tokens",
        "reasoning": "completion_tokens_details.reasoning_tokens",
        "audio": "prompt_tokens_details.audio_tokens",
        "spoken": "completion_tokens_details.audio_tokens",
        "total": "total_tokens",
    },
    "responses": {
        "input": "input_tokens",
        "output": "output_tokens",
        "cached": "input_tokens_details.cached_tokens",
        "written": "input_tokens_details.cache_write_tokens",
        "reasoning": "output_tokens_details.reasoning_tokens",
        "audio": "input_tokens_details.audio_tokens",
        "spoken": "output_tokens_details.audio_tokens",
        "total": "total_tokens",
    },
    "messages": {
        "input": "input_tokens",
        "output": "output_tokens",
        "cached": "cache_read_input_tokens",
        "written": "cache_creation_input_tokens",
        "reasoning": "output_tokens_details.thinking_tokens",
    },
    "native": {
        "input": "promptTokenCount",
        "output": "candidatesTokenCount",
        "cached": "cachedContentTokenCount",
        "reasoning": "thoughtsTokenCount",
        "total": "totalTokenCount",
    },
}
PROTOCOLS = sorted(NAMES)
TEXTS: dict[str, Any] = {
    "chat": lambda text: {"choices": [{"index": 0, "delta": {"content": text}}]},
    "responses": lambda text: {"type": "response.output_text.delta", "delta": text},
    "messages": lambda text: {"type": "content_block_delta", "delta": {"text": text}},
    "native": lambda text: {"candidates": [{"content": {"parts": [{"text": text}]}}]},
}


def stated(protocol: str, **counts: Any) -> dict[str, Any]:
    """An event with these counts."""
    usage: dict[str, Any] = {}
    for name, count in counts.items():
        *outer, last = NAMES[protocol][name].split(".")
        inner = usage
        for one in outer:
            inner = inner.setdefault(one, {})
        inner[last] = count
    if protocol == "chat":
        return {"choices": [], "usage": usage}
    if protocol == "native":
        return {"usageMetadata": usage}
    if protocol == "messages":
        return {"type": "message_delta", "usage": usage}
    return {"type": "response.completed", "response": {"status": "completed", "usage": usage}}


def metered(protocol: str, *events: dict[str, Any]) -> ResponseMeter[Any]:
    """The meter after these events."""
    meter = new_meter(protocol)
    for event in events:
        meter.take_event(meter.read_event(json.dumps(event).encode()))
    return meter


@each("protocol", PROTOCOLS)
@each("form", [lambda n: n, float, str, lambda n: f"{n}.0"])
def test_a_count_may_be_an_integral_float_or_a_text(protocol: str, form: Any) -> None:
    meter = metered(protocol, stated(protocol, input=form(20), output=form(9), cached=form(0)))
    assert (meter.usage, meter.malformed_events) == (Usage(20, 9), 0)


ODD = st.sampled_from([-5, 2.5, True, "many", [], {}, [7], "", "-3", float("nan"), float("inf")])


@each("protocol", PROTOCOLS)
@given(odd=ODD, name=st.sampled_from(["cached", "written", "reasoning"]))
def test_an_odd_part_leaves_the_others(protocol: str, odd: Any, name: str) -> None:
    if name not in NAMES[protocol]:
        name = "cached"
    meter = metered(protocol, stated(protocol, input=20, output=9, **{name: odd}))
    assert meter.usage == Usage(20, 9)


@each("protocol", ["chat", "responses"])
@each("odd", [[], "none", 5, -1])
def test_odd_details_leave_the_others(protocol: str, odd: Any) -> None:
    event = stated(protocol, input=20, output=9, cached=3, reasoning=4)
    usage = event["usage"] if protocol == "chat" else event["response"]["usage"]
    usage[NAMES[protocol]["cached"].partition(".")[0]] = odd
    assert metered(protocol, event).usage == Usage(20, 9, reasoning_tokens=4)


@each("protocol", PROTOCOLS)
@each("odd", [-5, 2.5, "many", None, []])
def test_an_odd_whole_leaves_the_other(protocol: str, odd: Any) -> None:
    meter = metered(protocol, stated(protocol, input=20, output=odd))
    assert meter.usage is None
    assert meter.partial_usage == PartialUsage(Usage(20, 0), None)
    meter = metered(protocol, stated(protocol, input=odd, output=9))
    assert meter.usage is None
    assert meter.partial_usage == PartialUsage(None, 9)


@each("protocol", ["chat", "messages", "native"])
def test_no_count_falls(protocol: str) -> None:
    good = stated(protocol, input=20, output=9, cached=8)
    zeros = stated(protocol, input=0, output=0, cached=0)
    expected = Usage(20, 9, cached_tokens=8)
    if protocol == "messages":  # the cache is not in its input
        expected = Usage(28, 9, cached_tokens=8)
    for later in (zeros, stated(protocol, input=20, output=4), stated(protocol, output=0)):
        meter = metered(protocol, good, TEXTS[protocol]("abcd"), later)
        assert meter.usage == expected, later
        assert meter.unstated_characters == 4


COUNT = st.integers(0, 50)
STATEMENTS = st.lists(st.fixed_dictionaries({}, optional={"input": COUNT, "output": COUNT}))


@each("protocol", ["chat", "messages", "native"])
@given(statements=STATEMENTS)
def test_the_largest_count_of_a_stream_is_its_usage(
    protocol: str, statements: Sequence[dict[str, int]]
) -> None:
    meter = new_meter(protocol)
    largest: dict[str, int] = {}
    for one in statements:
        meter.take_event(meter.read_event(json.dumps(stated(protocol, **one)).encode()))
        for name, count in one.items():
            largest[name] = max(largest.get(name, 0), count)
    if largest.keys() == {"input", "output"}:
        assert meter.usage == Usage(largest["input"], largest["output"])
    else:
        assert meter.usage is None


def test_an_input_may_be_divided_anew() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 100}}}
    parts = stated("messages", input=20, cached=80, output=9)
    assert metered("messages", start, parts).usage == Usage(100, 9, cached_tokens=80)
    read = {"input_tokens": 3, "cache_read_input_tokens": 97}
    start = {"type": "message_start", "message": {"usage": read}}
    expected = Usage(100, 9, cached_tokens=97)
    assert metered("messages", start, stated("messages", input=0, output=9)).usage == expected


@each("protocol", ["chat", "native"])
def test_characters_after_the_usage_are_not_stated(protocol: str) -> None:
    text = TEXTS[protocol]("x" * 40)
    first = {**text, **stated(protocol, input=20, output=10)}
    if protocol == "chat":
        first["choices"] = text["choices"]
    assert metered(protocol, first).unstated_characters == 0
    assert metered(protocol, first, text, text).unstated_characters == 80
    again = stated(protocol, input=20, output=10)
    assert metered(protocol, first, text, again).unstated_characters == 0
    nothing = stated(protocol, input=20, output=0)
    assert metered(protocol, nothing, text).unstated_characters == 40
    assert metered(protocol, text, nothing).unstated_characters == 40


# A part, and the input and output that it makes of 5 and 2: with its total, and without.
BESIDE = {"cached": (14, 2), "written": (14, 2), "audio": (14, 2), "reasoning": (5, 11)}
BESIDE |= {"spoken": (5, 11)}


@each("protocol", ["chat", "responses"])
@each("part", sorted(BESIDE))
def test_a_part_larger_than_its_whole_lies_beside_it(protocol: str, part: str) -> None:
    def wholes(**counts: int) -> tuple[int, int]:
        usage = metered(protocol, stated(protocol, input=5, output=2, **counts)).usage
        assert usage is not None
        return usage.input_tokens, usage.output_tokens

    assert wholes(**{part: 9}) == BESIDE[part]
    assert wholes(**{part: 9}, total=16) == BESIDE[part]
    assert wholes(**{part: 9}, total=7) == (5, 2)  # the total says that it is inside
    # Smaller than its whole: only the total tells.
    given, made = BESIDE[part][0] - 5, BESIDE[part][1] - 2
    small = (5 + bool(given), 2 + bool(made))
    assert wholes(**{part: 1}) == (5, 2)
    assert wholes(**{part: 1}, total=8) == small


def test_cached_tokens_beside_the_prompt_are_charged() -> None:
    usage = stated("chat", input=479, output=373, cached=13_312, total=14_164)
    assert metered("chat", usage).usage == Usage(13_791, 373, cached_tokens=13_312)


@cases(
    "prompt, members, expected",
    (120, {"cache_read_input_tokens": 70, "cache_creation_input_tokens": 30}, (70, 30, 0)),
    (20, {"cache_read_input_tokens": 70, "cache_creation_input_tokens": 30}, (70, 30, 0)),
    (120, {"prompt_tokens_details": {"cache_creation_tokens": 30}}, (0, 30, 0)),
    (120, {"prompt_tokens_details": {"cached_creation_tokens": 30}}, (0, 30, 0)),
    (120, {"reasoning_tokens": 4}, (0, 0, 4)),
)
def test_parts_under_the_names_of_gateways(
    prompt: int, members: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    usage = {"prompt_tokens": prompt, "completion_tokens": 9, "total_tokens": 129, **members}
    found = metered("chat", {"choices": [], "usage": usage}).usage
    assert found == Usage(120, 9, *expected)


def test_a_total_of_several_parts_is_their_sum() -> None:
    usage = stated("chat", input=5, output=2, cached=30, written=40, reasoning=50, total=127)
    expected = Usage(75, 52, cached_tokens=30, cache_write_tokens=40, reasoning_tokens=50)
    assert metered("chat", usage).usage == expected


@cases(
    "counts, expected",
    ({"cached": 9}, Usage(14, 2, cached_tokens=9)),
    ({"cached": 9, "total": 16}, Usage(14, 2, cached_tokens=9)),
    ({"cached": 9, "total": 7}, Usage(5, 2, cached_tokens=5)),
    ({"cached": 3, "reasoning": 4, "total": 14}, Usage(8, 6, cached_tokens=3, reasoning_tokens=4)),
)
def test_gemini_counts_beside_the_prompt(counts: dict[str, int], expected: Usage) -> None:
    assert metered("native", stated("native", input=5, output=2, **counts)).usage == expected


@cases("stated, written", (None, 500), (0, 500), (200, 500), (500, 500), (900, 900))
def test_tokens_written_to_a_cache_are_at_least_those_of_each_lifetime(
    stated: Any, written: int
) -> None:
    kept = {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 300}
    counts: dict[str, Any] = {"input_tokens": 100, "output_tokens": 1, "cache_creation": kept}
    counts["cache_creation_input_tokens"] = stated
    meter = new_meter("messages")
    meter.take_body(json.dumps({"content": [], "usage": counts}).encode())
    assert meter.usage is not None
    assert (meter.usage.input_tokens, meter.usage.cache_write_tokens) == (100 + written, written)


def test_thinking_beyond_the_output_of_messages_lies_beside_it() -> None:
    usage = stated("messages", input=5, output=2, reasoning=9)
    assert metered("messages", usage).usage == Usage(5, 11, reasoning_tokens=9)


PARTS = st.builds(
    UsageParts,
    audio_input_tokens=COUNT,
    image_input_tokens=COUNT,
    audio_output_tokens=COUNT,
    image_output_tokens=COUNT,
    cached_audio_tokens=COUNT,
)
ANY = st.builds(
    Counts,
    input_tokens=st.none() | COUNT,
    output_tokens=st.none() | COUNT,
    total_tokens=st.none() | st.integers(0, 200),
    cached_tokens=COUNT,
    cache_write_tokens=COUNT,
    reasoning_tokens=COUNT,
    parts=st.none() | PARTS,
    is_reasoning_placed=st.booleans(),
)


@given(counts=ANY)
def test_a_usage_is_at_least_what_is_stated_and_its_parts_fit(counts: Counts) -> None:
    usage = usage_of(counts)
    if usage is None:
        return
    assert usage.input_tokens >= (counts.input_tokens or 0)
    assert usage.output_tokens >= (counts.output_tokens or 0)
    both = usage.input_tokens + usage.output_tokens
    stated_sum = (counts.input_tokens or 0) + (counts.output_tokens or 0)
    if counts.total_tokens is not None and counts.total_tokens == stated_sum:
        assert both == counts.total_tokens
    parts = usage.parts or UsageParts()
    assert parts.audio_input_tokens + parts.image_input_tokens <= usage.input_tokens
    assert parts.audio_output_tokens + parts.image_output_tokens <= usage.output_tokens


@cases(
    "protocol, events, parts",
    (
        "chat",
        [{"id": "a", "model": "m", "service_tier": "priority", **TEXTS["chat"]("x")}],
        UsageParts(service_tier="priority"),
    ),
    (
        "chat",
        [{"id": "a", "model": "gpt-5-search-api", **TEXTS["chat"]("x")}],
        UsageParts(web_searches=1),
    ),
    (
        "responses",
        [
            {"type": "response.created", "response": {"id": "r", "service_tier": "flex"}},
            {
                "type": "response.output_item.done",
                "item": {"type": "web_search_call", "status": "completed"},
            },
            TEXTS["responses"]("x"),
        ],
        UsageParts(service_tier="flex", web_searches=1),
    ),
    (
        "messages",
        [
            {
                "type": "content_block_start",
                "content_block": {"type": "server_tool_use", "name": "web_search", "input": {}},
            },
            {
                "type": "content_block_start",
                "content_block": {"type": "web_search_tool_result", "content": [{"url": "x"}]},
            },
            {
                "type": "content_block_start",
                "content_block": {"type": "server_tool_use", "name": "web_search", "input": {}},
            },
            {
                "type": "content_block_start",
                "content_block": {
                    "type": "web_search_tool_result",
                    "content": {"type": "web_search_tool_result_error"},
                },
            },
        ],
        UsageParts(web_searches=1),
    ),
    (
        "native",
        [
            {
                "candidates": [
                    {
                        "content": {"parts": [{"text": "x"}]},
                        "groundingMetadata": {"webSearchQueries": ["a", "b"]},
                    }
                ]
            }
        ],
        UsageParts(web_searches=2),
    ),
)
def test_tier_and_searches_are_known_before_the_usage(
    protocol: str, events: list[Any], parts: UsageParts
) -> None:
    meter = metered(protocol, *events)
    assert meter.usage is None
    assert meter.partial_usage == PartialUsage(None, None, parts=parts)

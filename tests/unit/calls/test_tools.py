"""Which tool the channels of a model lack, by the configuration alone."""

from __future__ import annotations

from typing import Any

import pytest

from gw.calls.request import lacking_tool
from tests.support.specs import make_channel, make_model

SEARCH, DRAW = "web_search", "image_generation"
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


@pytest.mark.parametrize(
    ("tools", "channels", "expected"),
    [
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
    ],
)
def test_chat_completions_needs_a_channel_that_runs_the_tool_over_responses(
    tools: list[str], channels: list[tuple[set[str], set[str]]], expected: str | None
) -> None:
    assert lacking(tools, *channels) == expected


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        (NONE, None),
        ({"web_search", "image_gen"}, None),
        ({"web_search"}, DRAW),
        ({"image_gen", "tools"}, SEARCH),
        ({"json"}, SEARCH),
    ],
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


@pytest.mark.parametrize("protocol", ["messages", "responses", "native"])
def test_other_protocols_need_a_channel_that_speaks_them_and_has_the_tool(protocol: str) -> None:
    assert lacking([SEARCH], ({protocol}, {SEARCH}), protocol=protocol) is None
    assert lacking([SEARCH], ({protocol}, {DRAW}), protocol=protocol) == SEARCH
    assert lacking([SEARCH], ({"chat"}, {SEARCH}), protocol=protocol) is None  # no channel: a 503
    assert lacking(["code_execution"], ({protocol}, set()), protocol=protocol) is None


@pytest.mark.parametrize("tool", [SEARCH, "code_execution"])
def test_translation_reaches_a_model_but_takes_no_tool_along(tool: str) -> None:
    channel = ({"chat"}, {SEARCH, DRAW})
    assert lacking([tool], channel, protocol="messages", reached=("chat",)) == tool
    assert lacking([tool], ({"messages"}, set()), reached=("messages",)) == tool


def test_model_of_another_endpoint_has_no_channel_here() -> None:
    assert lacking([SEARCH], PLAIN, endpoint_type="images_generations") is None

"""Thinking and sampling by the generation of OpenAI's model, on every way into its protocols."""

from typing import Any

from channels.translation.losses import LossReport
from channels.translation.model import Protocol
from channels.translation.session import codec
from tests.support.rows import cases
from tests.unit.translation.pieces import USER

CLIENTS: dict[Protocol, dict[str, Any]] = {
    "chat": {"messages": [USER]},
    "messages": {"messages": [USER], "max_tokens": 9000},
    "native": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    "responses": {"input": [USER]},
}
# Each way into the two protocols: how a client states a level, and how it names it.
WAYS = [(client, upstream) for client in CLIENTS for upstream in ("chat", "responses")]


# Levels that a client's protocol does not have.
LACKING = {"native": ("xhigh", "max"), "messages": ("minimal",)}


def effort(client: Protocol, level: str) -> tuple[dict[str, Any], str]:
    """Members that ask for a level of thinking, and their name in the warning."""
    if client == "chat":
        return {"reasoning_effort": level}, "reasoning_effort"
    if client == "responses":
        return {"reasoning": {"effort": level}}, "reasoning.effort"
    if client == "native":
        if level == "none":
            budget = "generationConfig.thinkingConfig.thinkingBudget"
            return {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}, budget[:31]
        config = {"thinkingLevel": level.upper()}
        return (
            {"generationConfig": {"thinkingConfig": config}},
            "generationConfig.thinkingConfig.thinkingLevel",
        )
    if level == "none":
        return {"thinking": {"type": "disabled"}}, "thinking"
    return {"output_config": {"effort": level}}, "output_config.effort"


def sent(
    client: Protocol, upstream: Protocol, model: str, members: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The body for an upstream's model, and what is in the warning."""
    report = LossReport()
    request = codec(client).decode_request({**CLIENTS[client], **members})
    body = codec(upstream).encode_request(
        request, model=model, stream=False, max_tokens=9000, report=report
    )
    return body, report.dropped


def effort_in(body: dict[str, Any]) -> str | None:
    """The level of thinking that an upstream is asked for."""
    found: str | None = body.get("reasoning_effort") or body.get("reasoning", {}).get("effort")
    return found


@cases(
    "model, levels",
    ("gpt-5", "none>minimal minimal low high xhigh>high"),
    ("openai/gpt-5-mini-2025-08-07", "none>minimal minimal max>high"),
    ("gpt-5-codex", "none>low minimal>low medium xhigh>high"),
    ("gpt-5-pro", "none>high low>high high max>high"),
    ("gpt-5.1", "none minimal>low low high xhigh>high"),
    ("gpt-5.1-codex-max", "none>low xhigh max>xhigh"),
    ("gpt-5.2", "none minimal>low xhigh max>xhigh"),
    ("gpt-5.4-pro-2026-03-05", "none>medium low>medium xhigh"),
    ("gpt-5.2-chat-latest", "none>medium low>medium high>medium"),
    ("gpt-6", "none minimal>low xhigh max>xhigh"),
    ("o3", "none>low minimal>low medium xhigh>high"),
    ("azure/o4-mini-2025-04-16", "none>low high"),
    ("o3-deep-research", "none>medium high>medium"),
    ("up", "none minimal xhigh max"),
    ("openai/gpt-oss-120b", "low max"),
    ("deepseek-v4", "none max"),
)
def test_level_is_one_that_the_model_takes(model: str, levels: str) -> None:
    for client, upstream in WAYS:
        for row in levels.split():
            stated, _, expected = row.partition(">")
            if stated in LACKING.get(client, ()):
                continue
            members, field = effort(client, stated)
            body, dropped = sent(client, upstream, model, members)
            assert effort_in(body) == (expected or stated)
            assert dropped == ([field] if expected else [])


@cases("model", "gpt-4o", "gpt-4.1-mini", "chatgpt-4o-latest", "o1-mini", "gpt-5-chat-latest")
def test_model_without_thoughts_is_not_asked_for_any(model: str) -> None:
    for client, upstream in WAYS:
        for level in ("none", "high"):
            members, field = effort(client, level)
            body, dropped = sent(client, upstream, model, members)
            assert not body.keys() & {"reasoning_effort", "reasoning", "include"}
            assert dropped == ([] if level == "none" else [field])


SAMPLING: dict[Protocol, dict[str, Any]] = {
    "messages": {"temperature": 0.2, "top_p": 0.9},
    "native": {
        "generationConfig": {"temperature": 0.2, "topP": 0.9, "presencePenalty": 1},
    },
}


@cases(
    "model, levels, is_taken",
    ("gpt-5", ("", "low"), False),
    ("o3", ("", "high"), False),
    ("gpt-5.1", ("", "none"), True),
    ("gpt-5.2", ("low", "high"), False),
    ("gpt-5.5", ("", "high"), False),
    ("gpt-5.5", ("none",), True),
    ("gpt-5.1-codex", ("",), False),
    ("gpt-4o", ("", "high"), True),
    ("gpt-5-chat-latest", ("",), True),
    ("up", ("", "none", "high"), True),
)
def test_sampling_is_sent_where_the_model_takes_it(
    model: str, levels: tuple[str, ...], is_taken: bool
) -> None:
    for client, sampling in SAMPLING.items():
        for upstream in ("chat", "responses"):
            for level in levels:
                members = effort(client, level)[0] if level else {}
                config = {
                    **sampling.get("generationConfig", {}),
                    **members.get("generationConfig", {}),
                }
                stated = {**sampling, **members}
                if config:
                    stated["generationConfig"] = config
                body, dropped = sent(client, upstream, model, stated)
                assert ("temperature" in body, "top_p" in body) == (is_taken, is_taken)
                names = {one.rpartition(".")[2] for one in dropped}
                assert ({"temperature"} <= names) != is_taken


def test_default_sampling_loses_nothing() -> None:
    body, dropped = sent("messages", "chat", "gpt-5", {"temperature": 1, "top_p": 1})
    assert not body.keys() & {"temperature", "top_p"}
    assert dropped == []


FUNCTION = {"name": "f", "input_schema": {"type": "object", "properties": {}}}


@cases(
    "model, level, expected",
    ("gpt-5.3", "high", "high"),
    ("gpt-5.4", "high", "none"),
    ("gpt-5.4", None, None),
    ("gpt-5.5", None, "none"),
    ("gpt-5.6-terra", "low", "none"),
    ("gpt-5.6-terra", "none", "none"),
    ("openai/gpt-5.6", "low", "low"),
    ("up", "low", "low"),
)
def test_functions_exclude_thinking_on_chat_from_5_4(
    model: str, level: str | None, expected: str | None
) -> None:
    members, field = effort("messages", level) if level else ({}, "")
    body, dropped = sent("messages", "chat", model, {**members, "tools": [FUNCTION]})
    assert effort_in(body) == expected
    assert dropped == ([field] if level and level != expected else [])
    body, dropped = sent("messages", "responses", model, {**members, "tools": [FUNCTION]})
    assert (effort_in(body), dropped) == (level, [])


@cases(
    "model, takes_stop, takes_parallel",
    ("gpt-5", False, True),
    ("gpt-5.6-terra", False, True),
    ("o4-mini", False, False),
    ("o3-deep-research", False, False),
    ("gpt-4o", True, True),
    ("gpt-5-chat-latest", True, True),
    ("up", True, True),
)
def test_stops_and_parallel_calls_are_stated_where_the_model_takes_them(
    model: str, takes_stop: bool, takes_parallel: bool
) -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    members = {"stop_sequences": ["x"], "tools": [FUNCTION], "tool_choice": choice}
    body, dropped = sent("messages", "chat", model, members)
    assert ("stop" in body, "parallel_tool_calls" in body) == (takes_stop, takes_parallel)
    assert dropped == ([] if takes_stop else ["stop_sequences"])

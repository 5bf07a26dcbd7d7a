"""What the call log shows of a request: settings and counts, nothing that anyone wrote."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.chat import request as chat
from channels.dialects.gemini import request as gemini
from channels.dialects.messages import request as messages
from channels.dialects.responses import request as responses
from channels.errors import InvalidRequest
from tests.support.rows import cases, each

SECRET = "sk-" + "x" * 48
PNG = "data:image/png;base64,AAAA"
TOOL = {"type": "function", "function": {"name": "look_up", "description": SECRET}}

CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": SECRET},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": SECRET},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "image_url", "image_url": {"url": PNG}},
            ],
        },
        {"role": "assistant", "tool_calls": []},
    ],
    "stream": True,
    "max_completion_tokens": 77,
    "temperature": 0.5,
    "top_p": 1,
    "stop": [SECRET, "b"],
    "n": 2,
    "user": SECRET,
    "metadata": {"a": SECRET},
    "response_format": {"type": "json_schema", "json_schema": {"name": SECRET}},
    "reasoning_effort": "high",
    "service_tier": None,
    "tools": [TOOL, {"type": "web_search"}],
    "tool_choice": {"type": "function", "function": {"name": "look_up"}},
    "stream_options": {"include_usage": True},
    "prediction": {"type": "content", "content": SECRET},
}
MESSAGES = {
    "model": "m",
    "max_tokens": 9,
    "system": SECRET,
    "messages": [
        {"role": "user", "content": SECRET},
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64"}}]},
    ],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"effort": "low", "format": {"schema": SECRET}},
    "stop_sequences": [SECRET],
    "metadata": {"user_id": SECRET},
    "tools": [
        {"name": "look_up", "input_schema": {}},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "auto"},
}
RESPONSES = {
    "model": "m",
    "instructions": SECRET,
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": SECRET},
                {"type": "input_image", "image_url": PNG},
            ],
        }
    ],
    "max_output_tokens": 9,
    "reasoning": {"effort": "high", "summary": "auto"},
    "text": {"format": {"type": "json_object"}, "verbosity": "low"},
    "tools": [{"type": "function", "name": "look_up"}, {"type": "web_search"}],
    "tool_choice": "auto",
    "store": False,
    "safety_identifier": SECRET,
}
GEMINI = {
    "systemInstruction": {"parts": [{"text": SECRET}]},
    "contents": [
        {
            "parts": [
                {"text": SECRET},
                {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                {"inlineData": {"mimeType": "audio/mp3", "data": "AAAA"}},
            ]
        }
    ],
    "generationConfig": {
        "maxOutputTokens": 9,
        "topK": 40,
        "stopSequences": [SECRET],
        "thinkingConfig": {"thinkingBudget": 128, "includeThoughts": True},
        "responseSchema": {"description": SECRET},
    },
    "tools": [{"functionDeclarations": [{"name": "look_up"}]}, {"googleSearch": {}}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
}


def report_of(dialect: str, body: dict[str, Any]) -> dict[str, str]:
    """The parameters as a request of this dialect tells them."""
    text = json.dumps(body).encode()
    if dialect == "native":
        return dict(gemini.read_request(text, model="m", stream=True).parameters)
    return dict(
        {"chat": chat, "messages": messages, "responses": responses}[dialect]
        .read_request(text)
        .parameters
    )


REPORTED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "chat": (
        CHAT,
        {
            "stream": "true",
            "max_completion_tokens": "77",
            "temperature": "0.5",
            "top_p": "1",
            "stop": "2",
            "n": "2",
            "response_format": "json_schema",
            "reasoning_effort": "high",
            "tool_choice": "function",
            "stream_options.include_usage": "true",
            "tools": "2: look_up, web_search",
            "messages": "3",
            "images": "2",
        },
    ),
    "messages": (
        MESSAGES,
        {
            "max_tokens": "9",
            "thinking": "enabled",
            "stop_sequences": "1",
            "tool_choice": "auto",
            "thinking.budget_tokens": "1024",
            "output_config.effort": "low",
            "tools": "2: look_up, web_search",
            "messages": "2",
            "images": "1",
        },
    ),
    "responses": (
        RESPONSES,
        {
            "max_output_tokens": "9",
            "tool_choice": "auto",
            "store": "false",
            "reasoning.effort": "high",
            "reasoning.summary": "auto",
            "text.format": "json_object",
            "text.verbosity": "low",
            "tools": "2: look_up, web_search",
            "input": "1",
            "images": "1",
        },
    ),
    "native": (
        GEMINI,
        {
            "stream": "true",
            "generationConfig.maxOutputTokens": "9",
            "generationConfig.topK": "40",
            "generationConfig.stopSequences": "1",
            "generationConfig.thinkingConfig.thinkingBudget": "128",
            "generationConfig.thinkingConfig.includeThoughts": "true",
            "tools": "2: look_up, web_search",
            "toolConfig.functionCallingConfig.mode": "ANY",
            "contents": "1",
            "images": "1",
        },
    ),
}


@each("dialect", REPORTED)
def test_settings_and_counts_are_logged_and_nothing_that_was_written(dialect: str) -> None:
    body, expected = REPORTED[dialect]
    assert report_of(dialect, body) == expected


def test_input_that_is_a_string_is_no_number_of_items() -> None:
    assert report_of("responses", {"model": "m", "input": SECRET}) == {"input": "a string"}


@cases("value", SECRET, {"type": SECRET}, {"type": 1}, {}, 10**60, [SECRET] * 3)
def test_what_is_no_setting_is_logged_by_its_size(value: Any) -> None:
    (_, text), (_, _) = report_of(
        "chat",
        {"model": "m", "service_tier": value, "messages": [{"role": "user", "content": "x"}]},
    ).items()
    assert text in ("(51 characters)", "(object)", "(number)", "3")


def test_many_tools_are_counted_and_the_first_named() -> None:
    tools = [{"type": "function", "function": {"name": f"f{n}"}} for n in range(99)]
    text = report_of("chat", {**CHAT, "tools": tools})["tools"]
    assert text.startswith("99: f0, f1, ")
    assert text.endswith("f19, …")


@given(
    st.dictionaries(
        st.sampled_from(
            sorted(
                {*CHAT, "seed", "top_p", "service_tier", "modalities"}
                - {"model", "messages", "tools", "stream_options"}
            )
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    )
)
def test_whatever_passes_the_reader_is_logged_in_few_characters(members: dict[str, Any]) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], **members}
    try:
        found = report_of("chat", body)
    except InvalidRequest:
        return
    assert all(len(text) <= 60 for text in found.values())

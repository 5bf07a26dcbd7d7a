"""Every documented field of a chat-completions request, and where it arrives in messages.

A row: the field as chat spells it, a body that has it with a value that is not what happens anyway,
and its place in the other body; DROPPED where it has none and must be listed.
"""

from __future__ import annotations

from typing import Any

PNG = "data:image/png;base64,iVBORw0KGgoAAAAN"
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
USER = {"role": "user", "content": "hi"}
DROPPED = None
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def said(**part: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, part]}]}


def assistant(**members: Any) -> dict[str, Any]:
    return {"messages": [USER, {"role": "assistant", "content": "x", **members}, USER]}


def function(**members: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", **members}}]}


def schema_format(**members: Any) -> dict[str, Any]:
    form = {"name": "n", "schema": SCHEMA, **members}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


FIELDS: list[tuple[str, dict[str, Any], str | None]] = [
    ("model", {"model": "m"}, "model"),
    ("messages", {}, "messages.0.content"),
    ("messages.name", {"messages": [{**USER, "name": "ada"}]}, DROPPED),
    ("messages.audio", assistant(audio={"id": "a"}), DROPPED),
    ("messages.annotations", assistant(annotations=[{"type": "url_citation"}]), DROPPED),
    ("messages.refusal", assistant(refusal="no"), "messages.1.content.1.text"),
    ("messages.tool_calls", assistant(tool_calls=[CALL]), "messages.1.content.1.name"),
    (
        "messages.tool_calls.custom",
        assistant(
            tool_calls=[{"id": "c", "type": "custom", "custom": {"name": "k", "input": "x"}}]
        ),
        DROPPED,
    ),
    (
        "messages.function_call",
        assistant(function_call={"name": "f", "arguments": "{}"}),
        "messages.1.content.1.name",
    ),
    ("messages.reasoning_content", assistant(reasoning_content="hm"), DROPPED),
    ("messages.prefix", assistant(prefix=True), DROPPED),
    (
        "messages.image_url",
        said(type="image_url", image_url={"url": PNG}),
        "messages.0.content.1.source.data",
    ),
    (
        "messages.image_url.detail",
        said(type="image_url", image_url={"url": PNG, "detail": "high"}),
        DROPPED,
    ),
    (
        "messages.input_audio",
        said(type="input_audio", input_audio={"data": "UklGRg==", "format": "wav"}),
        DROPPED,
    ),
    ("messages.video_url", said(type="video_url", video_url={"url": "https://a.example"}), DROPPED),
    (
        "messages.file",
        said(type="file", file={"file_data": "data:application/pdf;base64,JVBERi0x"}),
        "messages.0.content.1.source.data",
    ),
    (
        "messages.file.filename",
        said(
            type="file",
            file={"file_data": "data:application/pdf;base64,JVBERi0x", "filename": "a.pdf"},
        ),
        "messages.0.content.1.title",
    ),
    ("messages.file.file_id", said(type="file", file={"file_id": "f"}), DROPPED),
    (
        "messages.prompt_cache_breakpoint",
        said(type="text", text="x", prompt_cache_breakpoint={"mode": "explicit"}),
        DROPPED,
    ),
    ("messages.telepathy", said(type="telepathy", telepathy="x"), DROPPED),
    ("audio", {"audio": {"voice": "v", "format": "mp3"}}, DROPPED),
    ("frequency_penalty", {"frequency_penalty": 0.5}, DROPPED),
    (
        "function_call",
        {"functions": [{"name": "f"}], "function_call": {"name": "f"}},
        "tool_choice.name",
    ),
    ("functions", {"functions": [{"name": "f"}]}, "tools.0.name"),
    ("logit_bias", {"logit_bias": {"50256": -100}}, DROPPED),
    ("logprobs", {"logprobs": True}, DROPPED),
    ("max_completion_tokens", {"max_completion_tokens": 5}, "max_tokens"),
    ("max_tokens", {"max_tokens": 5}, "max_tokens"),
    ("metadata", {"metadata": {"a": "b"}}, DROPPED),
    ("modalities", {"modalities": ["text", "audio"]}, DROPPED),
    ("moderation", {"moderation": {"model": "m"}}, DROPPED),
    ("n", {"n": 2}, DROPPED),
    (
        "parallel_tool_calls",
        {"tools": [FUNCTION], "parallel_tool_calls": False},
        "tool_choice.disable_parallel_tool_use",
    ),
    ("prediction", {"prediction": {"type": "content", "content": "x"}}, DROPPED),
    ("presence_penalty", {"presence_penalty": -1}, DROPPED),
    ("prompt_cache_key", {"prompt_cache_key": "k"}, DROPPED),
    ("prompt_cache_options", {"prompt_cache_options": {"ttl": "30m"}}, DROPPED),
    ("prompt_cache_retention", {"prompt_cache_retention": "24h"}, DROPPED),
    ("reasoning_effort", {"reasoning_effort": "high"}, "output_config.effort"),
    ("response_format", {"response_format": {"type": "json_object"}}, DROPPED),
    ("response_format", schema_format(), "output_config.format.schema"),
    ("response_format.json_schema.name", schema_format(), "output_config.format.schema.title"),
    (
        "response_format.json_schema.description",
        schema_format(description="d"),
        "output_config.format.schema.description",
    ),
    ("response_format.json_schema.strict", schema_format(strict=False), DROPPED),
    ("response_format", {"response_format": {"type": "grammar"}}, DROPPED),
    ("safety_identifier", {"safety_identifier": "s"}, "metadata.user_id"),
    ("seed", {"seed": 7}, DROPPED),
    ("service_tier", {"service_tier": "flex"}, DROPPED),
    ("service_tier", {"service_tier": "default"}, "service_tier"),
    ("stop", {"stop": "END"}, "stop_sequences.0"),
    ("store", {"store": True}, DROPPED),
    ("stream", {"stream": True}, "stream"),
    ("stream_options", {"stream_options": {"include_usage": True}}, "messages"),
    (
        "stream_options.include_obfuscation",
        {"stream_options": {"include_obfuscation": True}},
        DROPPED,
    ),
    ("temperature", {"temperature": 0.5}, "temperature"),
    ("temperature", {"temperature": 1.5}, DROPPED),
    ("tool_choice", {"tools": [FUNCTION], "tool_choice": "required"}, "tool_choice.type"),
    (
        "tool_choice",
        {"tools": [FUNCTION], "tool_choice": {"type": "custom", "custom": {"name": "k"}}},
        DROPPED,
    ),
    ("tools", {"tools": [FUNCTION]}, "tools.0.name"),
    ("tools.function.description", function(description="d"), "tools.0.description"),
    ("tools.function.parameters", function(parameters=SCHEMA), "tools.0.input_schema"),
    ("tools.function.strict", function(strict=True), "tools.0.strict"),
    ("tools.custom", {"tools": [{"type": "custom", "custom": {"name": "k"}}]}, DROPPED),
    ("tools.web_search", {"tools": [{"type": "web_search"}]}, DROPPED),
    ("tools.image_generation", {"tools": [{"type": "image_generation"}]}, DROPPED),
    ("top_k", {"top_k": 3}, "top_k"),
    ("top_logprobs", {"top_logprobs": 3}, DROPPED),
    ("top_p", {"top_p": 0.5}, "top_p"),
    ("user", {"user": "u"}, "metadata.user_id"),
    ("verbosity", {"verbosity": "low"}, DROPPED),
    ("web_search_options", {"web_search_options": {}}, DROPPED),
    ("something_new", {"something_new": [1]}, DROPPED),
]

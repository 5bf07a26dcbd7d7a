"""Every documented field of a messages request, and where it arrives in chat-completions.

The fields are those of the protocol's documentation, experimental ones included. A row is as in
`fields_of_chat.py`.
"""

from __future__ import annotations

from typing import Any

DROPPED = None
USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
CACHED = {"type": "ephemeral"}
TOOL = {"name": "f", "input_schema": SCHEMA}
SOURCE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAAAN"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}

# What came of a tool that the provider ran.
PROVIDER_RESULTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
)


def said(**part: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, part]}]}


def tool(**members: Any) -> dict[str, Any]:
    return {"tools": [{**TOOL, **members}]}


def modelled(**block: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "x"}, block]
    return {"messages": [USER, {"role": "assistant", "content": content}, USER]}


def answered(**members: Any) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", **members}
    return {
        "messages": [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]
    }


FIELDS: list[tuple[str, dict[str, Any], str | None]] = [
    ("model", {"model": "m"}, "model"),
    ("max_tokens", {"max_tokens": 5}, "max_tokens"),
    ("messages", {}, "messages.0.content"),
    (
        "messages.role",
        {"messages": [USER, {"role": "system", "content": "s"}]},
        "messages.1.role",
    ),
    ("messages.image", said(type="image", source=SOURCE), "messages.0.content.1.image_url.url"),
    (
        "messages.image.source.file",
        said(type="image", source={"type": "file", "file_id": "f"}),
        DROPPED,
    ),
    (
        "messages.transformations",
        said(type="image", source=SOURCE, transformations={"oversized_image": "error"}),
        DROPPED,
    ),
    (
        "messages.document",
        said(type="document", source=PDF),
        "messages.0.content.1.file.file_data",
    ),
    (
        "messages.document.title",
        said(type="document", source=PDF, title="t"),
        "messages.0.content.1.file.filename",
    ),
    (
        "messages.document.title",
        said(
            type="document",
            source={"type": "text", "media_type": "text/plain", "data": "x"},
            title="t",
        ),
        DROPPED,
    ),
    ("messages.context", said(type="document", source=PDF, context="c"), DROPPED),
    (
        "messages.citations",
        said(type="document", source=PDF, citations={"enabled": True}),
        DROPPED,
    ),
    (
        "messages.document",
        said(type="document", source={"type": "url", "url": "https://a.example"}),
        DROPPED,
    ),
    (
        "messages.document.source.file",
        said(type="document", source={"type": "file", "file_id": "f"}),
        DROPPED,
    ),
    (
        "messages.document.source",
        said(type="document", source={"type": "content", "content": "x"}),
        DROPPED,
    ),
    (
        "messages.search_result",
        said(type="search_result", source="s", title="t", content=[]),
        DROPPED,
    ),
    ("messages.container_upload", said(type="container_upload", file_id="f"), DROPPED),
    ("messages.cache_control", said(type="text", text="x", cache_control=CACHED), DROPPED),
    ("messages.thinking", modelled(type="thinking", thinking="hm", signature="s"), DROPPED),
    ("messages.thinking", modelled(type="redacted_thinking", data="x"), DROPPED),
    (
        "messages.tool_use",
        modelled(type="tool_use", id="t", name="f", input={}),
        "messages.1.tool_calls.0.function.name",
    ),
    (
        "messages.caller",
        modelled(
            type="tool_use",
            id="t",
            name="f",
            input={},
            caller={"type": "code_execution_20250825", "tool_id": "s"},
        ),
        DROPPED,
    ),
    (
        "messages.toolset_name",
        modelled(type="tool_use", id="t", name="f", input={}, toolset_name="browser"),
        DROPPED,
    ),
    (
        "messages.server_tool_use",
        modelled(type="server_tool_use", id="s", name="web_search", input={}),
        DROPPED,
    ),
    *(
        (f"messages.{kind}", modelled(type=kind, tool_use_id="s", content=[]), DROPPED)
        for kind in PROVIDER_RESULTS
    ),
    ("messages.mcp_tool_use", modelled(type="mcp_tool_use", id="s", name="x", input={}), DROPPED),
    ("messages.tool_result", answered(content="42"), "messages.1.content"),
    ("messages.tool_result.is_error", answered(is_error=True), DROPPED),
    ("messages.cache_control", answered(cache_control=CACHED), DROPPED),
    (
        "messages.tool_reference",
        answered(content=[{"type": "tool_reference", "tool_name": "f"}]),
        DROPPED,
    ),
    ("system", {"system": "s"}, "messages.0.content"),
    (
        "system.cache_control",
        {"system": [{"type": "text", "text": "s", "cache_control": CACHED}]},
        DROPPED,
    ),
    ("stream", {"stream": True}, "stream"),
    ("stop_sequences", {"stop_sequences": ["x"]}, "stop.0"),
    ("temperature", {"temperature": 0.5}, "temperature"),
    ("top_p", {"top_p": 0.5}, "top_p"),
    ("top_k", {"top_k": 5}, DROPPED),
    ("metadata.user_id", {"metadata": {"user_id": "u"}}, "user"),
    ("tools", tool(), "tools.0.function.name"),
    ("tools.description", tool(description="d"), "tools.0.function.description"),
    ("tools.input_schema", tool(), "tools.0.function.parameters"),
    ("tools.strict", tool(strict=True), "tools.0.function.strict"),
    ("tools.cache_control", tool(cache_control=CACHED), DROPPED),
    ("tools.allowed_callers", tool(allowed_callers=["code_execution_20250825"]), DROPPED),
    ("tools.defer_loading", tool(defer_loading=True), DROPPED),
    ("tools.eager_input_streaming", tool(eager_input_streaming=True), DROPPED),
    ("tools.input_examples", tool(input_examples=[{}]), DROPPED),
    ("tools.web_search_20250305", tool(type="web_search_20250305"), DROPPED),
    ("tools.bash_20250124", tool(type="bash_20250124"), DROPPED),
    ("tool_choice", {**tool(), "tool_choice": {"type": "any"}}, "tool_choice"),
    (
        "tool_choice.disable_parallel_tool_use",
        {**tool(), "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        "parallel_tool_calls",
    ),
    (
        "thinking.budget_tokens",
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        DROPPED,
    ),
    ("thinking", {"thinking": {"type": "disabled"}}, "reasoning_effort"),
    ("thinking", {"thinking": {"type": "adaptive"}}, DROPPED),
    ("thinking", {"thinking": {"type": "between_tools"}}, DROPPED),
    ("thinking.display", {"thinking": {"type": "adaptive", "display": "omitted"}}, DROPPED),
    ("output_config.effort", {"output_config": {"effort": "low"}}, "reasoning_effort"),
    (
        "output_config.format",
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        "response_format.json_schema.schema",
    ),
    ("output_config.task_budget", {"output_config": {"task_budget": {"total": 9}}}, DROPPED),
    (
        "output_format",
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
        "response_format.json_schema.schema",
    ),
    ("service_tier", {"service_tier": "standard_only"}, "service_tier"),
    *[
        (name, {name: value}, DROPPED)
        for name, value in {
            "cache_control": CACHED,
            "container": "c",
            "context_management": {"edits": []},
            "diagnostics": {"previous_message_id": "m"},
            "inference_geo": "us",
            "mcp_servers": [{"type": "url"}],
            "speed": "fast",
            "user_profile_id": "u",
            "workspace_id": "w",
            "billing_policy": {},
            "compaction": {},
            "fallbacks": [],
            "fallback_credit_token": "t",
            "betas": ["b"],
            "something_new": 1,
        }.items()
    ],
]

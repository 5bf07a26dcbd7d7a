"""Every documented field of a messages request, and where it arrives in other protocols.

The fields are those of the protocol's documentation, experimental ones included. A row is as in
`fields_of_chat.py`, for chat-completions, for native-content and for responses.
"""

from typing import Any

from tests.unit.translation.pieces import assistant, system, text, user

DROPPED = None
USER = user("hi")
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


def message_of(**part: Any) -> dict[str, Any]:
    return {"messages": [user([text("hi"), part])]}


def tool(**members: Any) -> dict[str, Any]:
    return {"tools": [{**TOOL, **members}]}


def modelled(**block: Any) -> dict[str, Any]:
    content = [text("x"), block]
    return {"messages": [USER, assistant(content), USER]}


def response_to(**members: Any) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", **members}
    return {"messages": [assistant([use]), user([result])]}


FIELDS: list[tuple[Any, ...]] = [
    ("model", {"model": "m"}, 'model = "up"'),
    ("max_tokens", {"max_tokens": 5}, "maximum = 4000"),
    ("messages", {}, 'message = "hi"'),
    (
        "messages.role",
        {"messages": [USER, system("s")]},
        'messages.1.role="system" - input.1.role="developer"',
    ),
    ("messages.image", message_of(type="image", source=SOURCE), 'image = "iVBORw0KGgoAAAAN"'),
    (
        "messages.image.source.file",
        message_of(type="image", source={"type": "file", "file_id": "f"}),
        DROPPED,
    ),
    (
        "messages.transformations",
        message_of(type="image", source=SOURCE, transformations={"oversized_image": "error"}),
        DROPPED,
    ),
    ("messages.document", message_of(type="document", source=PDF), 'pdf = "JVBERi0x"'),
    (
        "messages.document.title",
        message_of(type="document", source=PDF, title="t"),
        'file_name = "t"',
    ),
    (
        "messages.document.title",
        message_of(
            type="document",
            source={"type": "text", "media_type": "text/plain", "data": "x"},
            title="t",
        ),
        DROPPED,
    ),
    ("messages.context", message_of(type="document", source=PDF, context="c"), DROPPED),
    (
        "messages.citations",
        message_of(type="document", source=PDF, citations={"enabled": True}),
        DROPPED,
    ),
    (
        "messages.document",
        message_of(type="document", source={"type": "url", "url": "https://a.example"}),
        'file_url = "https://a.example"',
    ),
    (
        "messages.document.source.file",
        message_of(type="document", source={"type": "file", "file_id": "f"}),
        DROPPED,
    ),
    (
        "messages.document.source",
        message_of(type="document", source={"type": "content", "content": "x"}),
        DROPPED,
    ),
    (
        "messages.search_result",
        message_of(type="search_result", source="s", title="t", content=[]),
        DROPPED,
    ),
    ("messages.compaction", message_of(type="compaction", content="s"), DROPPED),
    ("messages.container_upload", message_of(type="container_upload", file_id="f"), DROPPED),
    (
        "system.x-anthropic-billing-header",
        {"system": "x-anthropic-billing-header: cch=1;"},
        DROPPED,
    ),
    ("messages.cache_control", message_of(type="text", text="x", cache_control=CACHED), DROPPED),
    ("messages.thinking", modelled(type="thinking", thinking="hm", signature="s"), DROPPED),
    ("messages.thinking", modelled(type="redacted_thinking", data="x"), DROPPED),
    (
        "messages.thinking",
        modelled(type="thinking", thinking="hm", signature="translated:unsigned"),
        'messages.1.reasoning_content - - = "hm"',
    ),
    ("messages.tool_use", modelled(type="tool_use", id="t", name="f", input={}), 'call.name = "f"'),
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
    (
        "messages.tool_result",
        response_to(content="42"),
        "messages.1.content contents.2.parts.0.functionResponse.response.output input.1.output = "
        '"42"',
    ),
    ("messages.tool_result.is_error", response_to(is_error=True), 'result.error = ""'),
    ("messages.cache_control", response_to(cache_control=CACHED), DROPPED),
    (
        "messages.tool_reference",
        response_to(content=[{"type": "tool_reference", "tool_name": "f"}]),
        DROPPED,
    ),
    ("system", {"system": "s"}, 'system = "s"'),
    (
        "system.cache_control",
        {"system": [{"type": "text", "text": "s", "cache_control": CACHED}]},
        DROPPED,
    ),
    ("stream", {"stream": True}, "stream = true"),
    ("stop_sequences", {"stop_sequences": ["x"]}, 'stop = "x"'),
    ("temperature", {"temperature": 0.5}, "temperature = 0.5"),
    ("top_p", {"top_p": 0.5}, "top_p = 0.5"),
    ("top_k", {"top_k": 5}, "top_k = 5"),
    ("metadata.user_id", {"metadata": {"user_id": "u"}}, 'user = "u"'),
    ("tools", tool(), 'tool.name = "f"'),
    ("tools.description", tool(description="d"), 'tool.description = "d"'),
    ("tools.input_schema", tool(), "parameters"),
    ("tools.strict", tool(strict=True), "tool.strict = true"),
    ("tools.cache_control", tool(cache_control=CACHED), DROPPED),
    ("tools.allowed_callers", tool(allowed_callers=["code_execution_20250825"]), DROPPED),
    ("tools.defer_loading", tool(defer_loading=True), DROPPED),
    ("tools.eager_input_streaming", tool(eager_input_streaming=True), DROPPED),
    ("tools.input_examples", tool(input_examples=[{}]), DROPPED),
    ("tools.web_search_20250305", tool(type="web_search_20250305"), DROPPED),
    ("tools.bash_20250124", tool(type="bash_20250124"), DROPPED),
    ("tool_choice", {**tool(), "tool_choice": {"type": "any"}}, "tool_required"),
    (
        "tool_choice.disable_parallel_tool_use",
        {**tool(), "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        "not_parallel",
    ),
    (
        "thinking.budget_tokens",
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        "thinking_budget = 2000",
    ),
    (
        "thinking",
        {"thinking": {"type": "disabled"}},
        'reasoning_effort="none" generationConfig.thinkingConfig.thinkingBudget=0 '
        'reasoning.effort="none"',
    ),
    ("thinking", {"thinking": {"type": "adaptive"}}, "thinking_budget = -1"),
    ("thinking", {"thinking": {"type": "between_tools"}}, DROPPED),
    (
        "thinking.display",
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        "- generationConfig.thinkingConfig.includeThoughts=false "
        'include=["reasoning.encrypted_content"]',
    ),
    (
        "output_config.effort",
        {"output_config": {"effort": "low"}},
        'reasoning_effort="low" generationConfig.thinkingConfig.thinkingLevel="LOW" '
        'reasoning.effort="low"',
    ),
    (
        "output_config.format",
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        'schema.type = "object"',
    ),
    ("output_config.task_budget", {"output_config": {"task_budget": {"total": 9}}}, DROPPED),
    (
        "output_format",
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
        'schema.type = "object"',
    ),
    ("service_tier", {"service_tier": "standard_only"}, 'service_tier = "default"'),
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

"""Every documented field of a responses request, and where it arrives in other protocols.

Fields that agents send beside those of the protocol's documentation are included. A row is as in
`fields_of_chat.py`, for messages, for native-content and for chat-completions.
"""

from typing import Any

from tests.unit.translation.pieces import developer, user

PNG = "data:image/png;base64,iVBORw0KGgoAAAAN"
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
USER = user("hi")
DROPPED = None
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "9"}
PATCH = {"type": "custom_tool_call", "call_id": "c", "name": "k", "input": "x"}
FOUND = [{"type": "function", "name": "found", "defer_loading": True}]
REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: X"}
SUMMARY = [{"type": "summary_text", "text": "Hm."}]


def items(*more: dict[str, Any]) -> dict[str, Any]:
    return {"input": [USER, *more]}


def message_of(**part: Any) -> dict[str, Any]:
    return {"input": [user([{"type": "input_text", "text": "hi"}, part])]}


def assistant(**part: Any) -> dict[str, Any]:
    return items({"role": "assistant", "content": [part]})


def one_tool(kind: str, **members: Any) -> dict[str, Any]:
    return {"tools": [{"type": kind, **members}]}


def function(**members: Any) -> dict[str, Any]:
    return one_tool("function", name="f", **members)


def schema_format(**members: Any) -> dict[str, Any]:
    form = {"type": "json_schema", "name": "n", "schema": SCHEMA, **members}
    return {"text": {"format": form}}


FIELDS: list[tuple[Any, ...]] = [
    ("model", {"model": "m"}, 'model = "up"'),
    ("input", {}, 'messages.0.content contents.0.parts.0.text messages.0.content = "hi"'),
    ("input.role", items(developer("psst"), USER), '- - messages.1.content = "psst"'),
    (
        "input.content.output_text",
        assistant(type="output_text", text="x", annotations=[]),
        'messages.1.content contents.1.parts.0.text messages.1.content = "x"',
    ),
    (
        "input.content.refusal",
        assistant(type="refusal", refusal="no"),
        'messages.1.content contents.1.parts.0.text messages.1.refusal = "no"',
    ),
    (
        "input.content.annotations",
        assistant(type="output_text", text="x", annotations=[{"type": "url_citation"}]),
        DROPPED,
    ),
    ("input.phase", items({"role": "assistant", "content": "x", "phase": "commentary"}), DROPPED),
    (
        "input.content.input_image",
        message_of(type="input_image", image_url=PNG),
        'image = "iVBORw0KGgoAAAAN"',
    ),
    (
        "input.content.detail",
        message_of(type="input_image", image_url=PNG, detail="low"),
        "low_detail",
    ),
    (
        "input.content.input_image.file_id",
        message_of(type="input_image", file_id="file_1"),
        DROPPED,
    ),
    (
        "input.content.input_file",
        message_of(type="input_file", filename="a.pdf", file_data="JVBERi0xLjc="),
        'pdf = "JVBERi0xLjc="',
    ),
    (
        "input.content.filename",
        message_of(type="input_file", filename="a.pdf", file_data="JVBERi0xLjc="),
        'file_name = "a.pdf"',
    ),
    ("input.content.input_file.file_id", message_of(type="input_file", file_id="file_1"), DROPPED),
    (
        "input.content.input_file",
        message_of(type="input_file", file_url="https://a.example/a.pdf"),
        'file_url = "https://a.example/a.pdf"',
    ),
    (
        "input.content.input_audio",
        message_of(type="input_audio", input_audio={"data": "UklGRg==", "format": "wav"}),
        '- contents.0.parts.1.inlineData.data messages.0.content.1.input_audio.data = "UklGRg=="',
    ),
    (
        "input.content.prompt_cache_breakpoint",
        message_of(type="input_text", text="x", prompt_cache_breakpoint={"mode": "explicit"}),
        DROPPED,
    ),
    ("input.content.telepathy", message_of(type="telepathy"), DROPPED),
    (
        "input.function_call",
        items(CALL, RESULT),
        "messages.1.content.0.id contents.1.parts.0.functionCall.id messages.1.tool_calls.0.id = "
        '"c"',
    ),
    (
        "input.namespace",
        items({**CALL, "namespace": "mcp__a"}, RESULT),
        "messages.1.content.0.name contents.1.parts.0.functionCall.name "
        'messages.1.tool_calls.0.function.name = "mcp__a__f"',
    ),
    ("input.function_call_output", items(CALL, RESULT), 'result = "9"'),
    (
        "input.function_call_output.output",
        items(CALL, {**RESULT, "output": [{"type": "input_image", "image_url": PNG}]}),
        'messages.2.content.0.content.0.source.data="iVBORw0KGgoAAAAN" '
        'contents.3.parts.0.inlineData.data="iVBORw0KGgoAAAAN" '
        'messages.3.content.0.image_url.url="data:image/png;base64,iVBORw0KGgoAAAAN"',
    ),
    (
        "input.custom_tool_call",
        items(PATCH, {**RESULT, "type": "custom_tool_call_output"}),
        'messages.1.content.0.input={"input":"x"} '
        'contents.1.parts.0.functionCall.args={"input":"x"} '
        'messages.1.tool_calls.0.function.arguments="{\\"input\\":\\"x\\"}"',
    ),
    ("input.reasoning", items({**REASONING, "encrypted_content": "gAAA"}, CALL, RESULT), DROPPED),
    (
        "input.reasoning",
        items({**REASONING, "encrypted_content": "translated:messages:c2ln"}, CALL, RESULT),
        'messages.1.content.0.signature - - = "c2ln"',
    ),
    (
        "input.reasoning",
        items({**REASONING, "encrypted_content": "translated:native:c2ln"}, CALL, RESULT),
        '- contents.1.parts.0.thoughtSignature - = "c2ln"',
    ),
    (
        "input.reasoning",
        items({**REASONING, "summary": SUMMARY}, CALL, RESULT),
        '- - messages.1.reasoning_content = "Hm."',
    ),
    (
        "input.reasoning",
        items(
            {**REASONING, "summary": SUMMARY, "encrypted_content": "translated:unsigned"},
            {**REASONING, "encrypted_content": "translated:native:c2ln"},
            *(CALL, RESULT),
        ),
        '- contents.1.parts.0.thoughtSignature - = "c2ln"',
    ),
    (
        "input.image_generation_call",
        items(
            {
                "type": "image_generation_call",
                "id": "ig_1",
                "status": "completed",
                "result": "iVBORw0KGgoAAAAN",
            },
            USER,
        ),
        DROPPED,
    ),
    (
        "input.web_search_call",
        items(
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "x"},
            }
        ),
        DROPPED,
    ),
    (
        "input.local_shell_call",
        items(
            {
                "type": "local_shell_call",
                "id": "lsh_1",
                "call_id": "c",
                "status": "completed",
                "action": {"type": "exec", "command": ["ls"], "env": {}},
            },
            {"type": "local_shell_call_output", "id": "c", "output": "a"},
        ),
        'messages.1.content.0.input={"command":["ls"]} '
        'contents.1.parts.0.functionCall.args={"command":["ls"]} '
        'messages.1.tool_calls.0.function.arguments="{\\"command\\":[\\"ls\\"]}"',
    ),
    (
        "input.local_shell_call_output",
        items(
            {"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "action": {}},
            {"type": "local_shell_call_output", "id": "lsh_1", "output": "a"},
        ),
        'result = "a"',
    ),
    (
        "input.shell_call_output",
        items(
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a"}]},
        ),
        'result = "[{\\"stdout\\":\\"a\\"}]"',
    ),
    (
        "input.apply_patch_call_output",
        items(
            {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "delete_file"}},
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "a"},
        ),
        'result = "failed: a"',
    ),
    (
        "input.tool_search_output",
        items(
            {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}},
            {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": FOUND},
        ),
        'tool.name = "found"',
    ),
    (
        "input.tool_search_output",
        items(
            {"type": "tool_search_call", "execution": "server", "arguments": {}},
            {"type": "tool_search_output", "execution": "server", "tools": FOUND},
        ),
        DROPPED,
    ),
    (
        "input.additional_tools",
        items({"type": "additional_tools", "role": "developer", "tools": FOUND}),
        'tool.name = "found"',
    ),
    ("input.computer_call", items({"type": "computer_call", "call_id": "c"}), DROPPED),
    ("input.compaction", items({"type": "compaction", "encrypted_content": "gAAA"}), DROPPED),
    *[  # damaged
        ("input.reasoning", items({**REASONING, "encrypted_content": proof}, CALL, RESULT), DROPPED)
        for proof in ("translated:messages:", "translated:messages:\x00", "translated:native:é")
    ],
    ("instructions", {"instructions": "Be brief."}, 'system = "Be brief."'),
    ("access_programs", {"access_programs": ["x"]}, DROPPED),
    ("background_options", {"background_options": {"a": "b"}}, DROPPED),
    ("image", {"image": {"a": "b"}}, DROPPED),
    ("background", {"background": False}, "nothing"),
    ("client_metadata", {"client_metadata": {"a": "b"}}, DROPPED),
    ("context_management", {"context_management": [{"type": "compaction"}]}, DROPPED),
    ("conversation", {"conversation": None}, "nothing"),
    ("frequency_penalty", {"frequency_penalty": 0.5}, "frequency_penalty = 0.5"),
    ("include", {"include": ["reasoning.encrypted_content"]}, "nothing"),
    (
        "include.message.output_text.logprobs",
        {"include": ["message.output_text.logprobs"]},
        DROPPED,
    ),
    ("max_output_tokens", {"max_output_tokens": 77}, "nothing"),
    ("max_tool_calls", {"max_tool_calls": 3}, DROPPED),
    ("metadata", {"metadata": {"a": "b"}}, DROPPED),
    ("metadata", {"metadata": {"session_id": "s"}}, "nothing"),
    ("moderation", {"moderation": {"model": "omni-moderation-latest"}}, DROPPED),
    (
        "parallel_tool_calls",
        {**function(parameters=SCHEMA), "parallel_tool_calls": False},
        "not_parallel",
    ),
    ("presence_penalty", {"presence_penalty": 0.5}, "presence_penalty = 0.5"),
    ("previous_response_id", {"previous_response_id": None}, "nothing"),
    ("prompt", {"prompt": {"id": "pmpt_1"}}, DROPPED),
    ("prompt_cache_key", {"prompt_cache_key": "k"}, DROPPED),
    ("prompt_cache_options", {"prompt_cache_options": {"mode": "explicit"}}, "~ - -"),
    ("prompt_cache_options", {"prompt_cache_options": {"ttl": "30m"}}, DROPPED),
    ("prompt_cache_retention", {"prompt_cache_retention": "24h"}, DROPPED),
    ("reasoning", {"reasoning": {"effort": "high"}}, "effort_high"),
    ("reasoning.effort", {"reasoning": {"effort": "extreme"}}, DROPPED),
    (
        "reasoning.summary",
        {"reasoning": {"effort": "high", "summary": "auto"}},
        'thinking.display="summarized" generationConfig.thinkingConfig.includeThoughts=true -',
    ),
    ("reasoning.mode", {"reasoning": {"mode": "pro"}}, DROPPED),
    ("safety_identifier", {"safety_identifier": "s"}, 'user = "s"'),
    ("service_tier", {"service_tier": "default"}, "default_tier"),
    ("store", {"store": True}, DROPPED),
    ("stream", {"stream": True}, "stream = true"),
    ("stream_options", {"stream_options": {}}, "nothing"),
    (
        "stream_options.include_obfuscation",
        {"stream_options": {"include_obfuscation": True}},
        DROPPED,
    ),
    ("temperature", {"temperature": 0.5}, "temperature = 0.5"),
    ("text", schema_format(), 'schema.name = "n"'),
    (
        "text.format.strict",
        schema_format(strict=False),
        "- - response_format.json_schema.strict = false",
    ),
    ("text.format", {"text": {"format": {"type": "json_object"}}}, "json_object"),
    ("text.verbosity", {"text": {"verbosity": "low"}}, '- - verbosity = "low"'),
    (
        "tool_choice",
        {**function(parameters=SCHEMA), "tool_choice": {"type": "function", "name": "f"}},
        'tool_choice.name="f" toolConfig.functionCallingConfig.allowedFunctionNames=["f"] '
        'tool_choice.function.name="f"',
    ),
    (
        "tool_choice.tools",
        {
            **function(parameters=SCHEMA),
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "f"}],
            },
        },
        "tools.0.name tools.0.functionDeclarations.0.name "
        'tool_choice.allowed_tools.tools.0.function.name = "f"',
    ),
    ("tools", function(parameters=SCHEMA, description="d"), 'tool.name = "f"'),
    ("tools.strict", function(parameters=SCHEMA, strict=True), "tool.strict = true"),
    ("tools.defer_loading", function(parameters=SCHEMA, defer_loading=True), DROPPED),
    ("tools.custom", one_tool("custom", name="k", description="d"), 'tool.name = "k"'),
    ("tools.format", one_tool("custom", name="k", format=GRAMMAR), DROPPED),
    (
        "tools.namespace",
        one_tool("namespace", name="mcp__a", **function()),
        'tool.name = "mcp__a__f"',
    ),
    ("tools.description", one_tool("namespace", name="n", description="d", **function()), DROPPED),
    *[
        (
            f"tools.{kind}",
            one_tool(kind, **members),
            f'tools.0.name tools.0.functionDeclarations.0.name tools.0.function.name = "{kind}"',
        )
        for kind, members in (
            ("local_shell", {}),
            ("shell", {"environment": {"type": "local"}}),
            ("apply_patch", {}),
            ("tool_search", {"execution": "client"}),
        )
    ],
    ("tools.shell", one_tool("shell", environment={"type": "container_auto"}), DROPPED),
    ("tools.tool_search", one_tool("tool_search"), DROPPED),
    ("top_logprobs", {"top_logprobs": 2}, DROPPED),
    ("top_p", {"top_p": 0.5}, "top_p = 0.5"),
    ("truncation", {"truncation": "auto"}, DROPPED),
    ("user", {"user": "u"}, 'user = "u"'),
]

"""Every documented field of a chat-completions request, and where it arrives in other protocols.

A row: the field as chat spells it, a body that has it with a value that is not what happens anyway,
and what the bodies for messages, for native-content and for responses hold: a name of `MEMBERS` and
the value there as JSON (`stop = "x"`), or a path for each with the value behind all of them
(`a.b c.d = 1`) or behind each (`a.b=1 c.d=2`). `-` is where the field has no place and must be
listed, `~` where the body holds nothing of it; DROPPED is a field that has no place anywhere.
"""

from typing import Any

from tests.unit.translation.pieces import call, text, tool, user

PNG = "data:image/png;base64,iVBORw0KGgoAAAAN"
SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}
FUNCTION = tool("f", parameters=SCHEMA)
USER = user("hi")
DROPPED = None
CALL = call("c", "{}", name="f")
SIGNED = {"google": {"thought_signature": "c2ln"}}


def message_of(**part: Any) -> dict[str, Any]:
    return {"messages": [user([text("hi"), part])]}


def assistant(**members: Any) -> dict[str, Any]:
    return {"messages": [USER, {"role": "assistant", "content": "x", **members}, USER]}


def function(**members: Any) -> dict[str, Any]:
    return {"tools": [tool("f", **members)]}


def schema_format(**members: Any) -> dict[str, Any]:
    form = {"name": "n", "schema": SCHEMA, **members}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


FIELDS: list[tuple[Any, ...]] = [
    ("model", {"model": "m"}, 'model = "up"'),
    ("messages", {}, 'message = "hi"'),
    ("messages.name", {"messages": [{**USER, "name": "ada"}]}, DROPPED),
    ("messages.audio", assistant(audio={"id": "a"}), DROPPED),
    ("messages.annotations", assistant(annotations=[{"type": "url_citation"}]), DROPPED),
    (
        "messages.refusal",
        assistant(refusal="no"),
        'messages.1.content.1.text contents.1.parts.1.text input.1.content.1.refusal = "no"',
    ),
    ("messages.tool_calls", assistant(tool_calls=[CALL]), 'call.name = "f"'),
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
        'call.name = "f"',
    ),
    ("messages.reasoning_content", assistant(reasoning_content="hm"), DROPPED),
    (
        "messages.reasoning_content",
        assistant(reasoning_content="hm", tool_calls=[{**CALL, "extra_content": SIGNED}]),
        '- contents.1.parts.1.thoughtSignature - = "c2ln"',
    ),
    ("messages.prefix", assistant(prefix=True), DROPPED),
    (
        "messages.image_url",
        message_of(type="image_url", image_url={"url": PNG}),
        'image = "iVBORw0KGgoAAAAN"',
    ),
    (
        "messages.image_url.detail",
        message_of(type="image_url", image_url={"url": PNG, "detail": "high"}),
        "- "
        'generationConfig.mediaResolution="MEDIA_RESOLUTION_HIGH" '
        'input.0.content.1.detail="high"',
    ),
    (
        "messages.input_audio",
        message_of(type="input_audio", input_audio={"data": "UklGRg==", "format": "wav"}),
        '- contents.0.parts.1.inlineData.data - = "UklGRg=="',
    ),
    (
        "messages.video_url",
        message_of(type="video_url", video_url={"url": "https://a.example"}),
        '- contents.0.parts.1.fileData.fileUri - = "https://a.example"',
    ),
    (
        "messages.file",
        message_of(type="file", file={"file_data": "data:application/pdf;base64,JVBERi0x"}),
        'pdf = "JVBERi0x"',
    ),
    (
        "messages.file.filename",
        message_of(
            type="file",
            file={"file_data": "data:application/pdf;base64,JVBERi0x", "filename": "a.pdf"},
        ),
        'file_name = "a.pdf"',
    ),
    ("messages.file.file_id", message_of(type="file", file={"file_id": "f"}), DROPPED),
    (
        "messages.prompt_cache_breakpoint",
        message_of(type="text", text="x", prompt_cache_breakpoint={"mode": "explicit"}),
        '- - input.0.content.1.prompt_cache_breakpoint.mode = "explicit"',
    ),
    ("messages.telepathy", message_of(type="telepathy", telepathy="x"), DROPPED),
    ("audio", {"audio": {"voice": "v", "format": "mp3"}}, DROPPED),
    ("frequency_penalty", {"frequency_penalty": 0.5}, "frequency_penalty = 0.5"),
    (
        "function_call",
        {"functions": [{"name": "f"}], "function_call": {"name": "f"}},
        'chosen_tool = "f"',
    ),
    ("functions", {"functions": [{"name": "f"}]}, 'tool.name = "f"'),
    ("logit_bias", {"logit_bias": {"50256": -100}}, DROPPED),
    ("logprobs", {"logprobs": True}, DROPPED),
    ("max_completion_tokens", {"max_completion_tokens": 5}, "maximum = 4000"),
    ("max_tokens", {"max_tokens": 5}, "maximum = 4000"),
    ("metadata", {"metadata": {"a": "b"}}, '- - metadata.a = "b"'),
    ("modalities", {"modalities": ["text", "audio"]}, DROPPED),
    ("moderation", {"moderation": {"model": "m"}}, '- - moderation.model = "m"'),
    ("n", {"n": 2}, DROPPED),
    ("parallel_tool_calls", {"tools": [FUNCTION], "parallel_tool_calls": False}, "not_parallel"),
    ("prediction", {"prediction": {"type": "content", "content": "x"}}, DROPPED),
    ("presence_penalty", {"presence_penalty": -1}, "presence_penalty = -1"),
    ("prompt_cache_key", {"prompt_cache_key": "k"}, '- - prompt_cache_key = "k"'),
    (
        "prompt_cache_options",
        {"prompt_cache_options": {"ttl": "30m"}},
        '- - prompt_cache_options.ttl = "30m"',
    ),
    (
        "prompt_cache_retention",
        {"prompt_cache_retention": "24h"},
        '- - prompt_cache_retention = "24h"',
    ),
    ("reasoning_effort", {"reasoning_effort": "high"}, "effort_high"),
    ("response_format", {"response_format": {"type": "json_object"}}, "json_object"),
    ("response_format", schema_format(), 'schema.type = "object"'),
    ("response_format.json_schema.name", schema_format(), 'schema.name = "n"'),
    (
        "response_format.json_schema.description",
        schema_format(description="d"),
        "output_config.format.schema.description generationConfig.responseSchema.description "
        'text.format.description = "d"',
    ),
    (
        "response_format.json_schema.strict",
        schema_format(strict=False),
        "- - text.format.strict = false",
    ),
    ("response_format", {"response_format": {"type": "grammar"}}, DROPPED),
    ("safety_identifier", {"safety_identifier": "s"}, 'safety_identifier = "s"'),
    ("seed", {"seed": 7}, "- generationConfig.seed - = 7"),
    ("service_tier", {"service_tier": "flex"}, 'service_tier = "flex"'),
    ("service_tier", {"service_tier": "default"}, "default_tier"),
    ("stop", {"stop": "END"}, 'stop = "END"'),
    ("store", {"store": True}, DROPPED),
    ("stream", {"stream": True}, "stream = true"),
    (
        "stream_options",
        {"stream_options": {"include_usage": True}},
        'messages.0.role="user" ~ input.0.type="message"',
    ),
    (
        "stream_options.include_obfuscation",
        {"stream_options": {"include_obfuscation": True}},
        "- - stream_options.include_obfuscation = true",
    ),
    ("temperature", {"temperature": 0.5}, "temperature = 0.5"),
    ("temperature", {"temperature": 1.5}, "temperature_above_1 = 1.5"),
    ("tool_choice", {"tools": [FUNCTION], "tool_choice": "required"}, "tool_required"),
    (
        "tool_choice",
        {"tools": [FUNCTION], "tool_choice": {"type": "custom", "custom": {"name": "k"}}},
        DROPPED,
    ),
    ("tools", {"tools": [FUNCTION]}, 'tool.name = "f"'),
    ("tools.function.description", function(description="d"), 'tool.description = "d"'),
    ("tools.function.parameters", function(parameters=SCHEMA), "parameters"),
    ("tools.function.strict", function(strict=True), "tool.strict = true"),
    ("tools.custom", {"tools": [{"type": "custom", "custom": {"name": "k"}}]}, DROPPED),
    ("tools.web_search", {"tools": [{"type": "web_search"}]}, '- - tools.0.type = "web_search"'),
    (
        "tools.image_generation",
        {"tools": [{"type": "image_generation"}]},
        '- - tools.0.type = "image_generation"',
    ),
    ("top_k", {"top_k": 3}, "top_k = 3"),
    ("top_logprobs", {"top_logprobs": 3}, DROPPED),
    ("top_p", {"top_p": 0.5}, "top_p = 0.5"),
    ("user", {"user": "u"}, 'user = "u"'),
    ("verbosity", {"verbosity": "low"}, '- - text.verbosity = "low"'),
    ("web_search_options", {"web_search_options": {}}, DROPPED),
    ("something_new", {"something_new": [1]}, DROPPED),
]

"""Every documented field of every protocol arrives where it belongs, or is listed as dropped.

The tables beside this say where, and with which value. That they are complete is checked against
the official libraries.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_type_hints

from channels.translation.model import Protocol
from tests.support.rows import each
from tests.unit.translation import dropping, fields_of_chat, fields_of_messages, fields_of_responses
from tests.unit.translation.gemini import fields_of_gemini
from tests.unit.translation.gemini.pieces import request_of
from tests.unit.translation.pieces import user
from tests.unit.translation.translated import translated

STATED = [user("hi")]
PLAIN: dict[Protocol, dict[str, Any]] = {
    "chat": {"model": "m", "max_tokens": 9, "messages": STATED},
    "messages": {"model": "m", "max_tokens": 9, "messages": STATED},
    "responses": {"model": "m", "input": STATED},
}
# A client's fields, and the protocols that the columns behind them stand for.
TABLES: dict[Protocol, tuple[list[Any], tuple[Protocol, ...]]] = {
    "chat": (fields_of_chat.FIELDS, ("messages", "native", "responses")),
    "messages": (fields_of_messages.FIELDS, ("chat", "native", "responses")),
    "native": (fields_of_gemini.FIELDS, ("chat", "messages", "responses")),
    "responses": (fields_of_responses.FIELDS, ("messages", "native", "chat")),
}


# Where each protocol has what a field says: chat, messages, native-content, responses; `{}` is the
# value where they do not have it alike.
MEMBERS: dict[str, str] = {
    "model": "model model ~ model",
    "message": "messages.0.content messages.0.content ~ input.0.content.0.text",
    "system": "messages.0.content system systemInstruction.parts.0.text instructions",
    "file_name": (
        "messages.0.content.1.file.filename messages.0.content.1.title - input.0.content.1.filename"
    ),
    "file_url": (
        "- messages.0.content.1.source.url contents.0.parts.1.fileData.fileUri "
        "input.0.content.1.file_url"
    ),
    "call.name": (
        "messages.1.tool_calls.0.function.name messages.1.content.1.name "
        "contents.1.parts.1.functionCall.name input.2.name"
    ),
    "result": (
        "messages.2.content messages.2.content.0.content "
        "contents.2.parts.0.functionResponse.response.output input.2.output"
    ),
    "result.error": (
        "- messages.2.content.0.is_error contents.2.parts.0.functionResponse.response.error -"
    ),
    "tool.name": (
        "tools.0.function.name tools.0.name tools.0.functionDeclarations.0.name tools.0.name"
    ),
    "tool.description": (
        "tools.0.function.description tools.0.description "
        "tools.0.functionDeclarations.0.description tools.0.description"
    ),
    "tool.strict": "tools.0.function.strict tools.0.strict - tools.0.strict",
    "chosen_tool": (
        "tool_choice.function.name tool_choice.name "
        "toolConfig.functionCallingConfig.allowedFunctionNames.0 tool_choice.name"
    ),
    "schema.type": (
        "response_format.json_schema.schema.type output_config.format.schema.type "
        "generationConfig.responseSchema.type text.format.schema.type"
    ),
    "schema.required": (
        "response_format.json_schema.schema.required.0 "
        "output_config.format.schema.required.0 generationConfig.responseSchema.required.0 "
        "text.format.schema.required.0"
    ),
    "schema.name": (
        "response_format.json_schema.name output_config.format.schema.title "
        "generationConfig.responseSchema.title text.format.name"
    ),
    "maximum": "max_tokens max_tokens ~ max_output_tokens",
    "stream": "stream stream ~ stream",
    "stop": "stop.0 stop_sequences.0 generationConfig.stopSequences.0 -",
    "temperature": "temperature temperature generationConfig.temperature temperature",
    "temperature_above_1": "temperature - generationConfig.temperature temperature",
    "top_p": "top_p top_p generationConfig.topP top_p",
    "top_k": "- top_k generationConfig.topK -",
    "frequency_penalty": "frequency_penalty - generationConfig.frequencyPenalty frequency_penalty",
    "presence_penalty": "presence_penalty - generationConfig.presencePenalty presence_penalty",
    "thinking_budget": "- thinking.budget_tokens generationConfig.thinkingConfig.thinkingBudget -",
    "user": "user metadata.user_id - user",
    "safety_identifier": "- metadata.user_id - safety_identifier",
    "service_tier": "service_tier - - service_tier",
    "image": (
        'messages.0.content.1.image_url.url="data:image/png;base64,{}" '
        'messages.0.content.1.source.data="{}" contents.0.parts.1.inlineData.data="{}" '
        'input.0.content.1.image_url="data:image/png;base64,{}"'
    ),
    "pdf": (
        'messages.0.content.1.file.file_data="data:application/pdf;base64,{}" '
        'messages.0.content.1.source.data="{}" contents.0.parts.1.inlineData.data="{}" '
        'input.0.content.1.file_data="data:application/pdf;base64,{}"'
    ),
    "effort_high": (
        'reasoning_effort="high" output_config.effort="high" '
        'generationConfig.thinkingConfig.thinkingLevel="HIGH" reasoning.effort="high"'
    ),
    "tool_required": (
        'tool_choice="required" tool_choice.type="any" '
        'toolConfig.functionCallingConfig.mode="ANY" tool_choice="required"'
    ),
    "not_parallel": (
        "parallel_tool_calls=false tool_choice.disable_parallel_tool_use=true - "
        "parallel_tool_calls=false"
    ),
    "json_object": (
        'response_format.type="json_object" - '
        'generationConfig.responseMimeType="application/json" text.format.type="json_object"'
    ),
    "default_tier": 'service_tier="default" service_tier="standard_only" - service_tier="default"',
    "parameters": (
        'tools.0.function.parameters.type="object" tools.0.input_schema.type="object" '
        'tools.0.functionDeclarations.0.name="f" tools.0.parameters.type="object"'
    ),
    "low_detail": (
        'messages.0.content.1.image_url.detail="low" - '
        'generationConfig.mediaResolution="MEDIA_RESOLUTION_LOW" '
        'input.0.content.1.detail="low"'
    ),
    "nothing": "~ ~ ~ ~",
}
PROTOCOLS: tuple[Protocol, ...] = ("chat", "messages", "native", "responses")


def held_by(places: str | None, upstreams: tuple[Protocol, ...]) -> Iterator[str | None]:
    """What each upstream's body holds: a path and a value, nothing (""), or the field is listed."""
    if places is None:
        yield from [None] * len(upstreams)
        return
    paths, _, value = places.partition(" = ")
    if paths in MEMBERS:
        held = dict(zip(PROTOCOLS, MEMBERS[paths].split(), strict=True))
        paths = " ".join(held[upstream] for upstream in upstreams)
    for _, path in zip(upstreams, paths.split(), strict=True):
        if path in ("-", "~"):
            yield None if path == "-" else ""
        elif "{}" in path:
            yield path.replace("{}", json.loads(value))
        else:
            yield f"{path}={value}" if value else path


ROWS = [
    (client, upstream, field, body, held)
    for client, (fields, upstreams) in TABLES.items()
    for field, body, places in fields
    for upstream, held in zip(upstreams, held_by(places, upstreams), strict=True)
]
NOTHING = object()


def at(body: Any, path: str) -> Any:
    """The value at a dotted path with indices, `messages.0.content`; NOTHING where none is."""
    for step in path.split("."):
        if isinstance(body, list):
            body = body[int(step)] if len(body) > int(step) else NOTHING
        else:
            body = body.get(step, NOTHING) if isinstance(body, Mapping) else NOTHING
    return body


@each("client, upstream, field, fragment, message", ROWS)
def test_field_arrives_where_it_belongs_or_is_listed(
    client: Protocol, upstream: Protocol, field: str, fragment: dict[str, Any], message: str | None
) -> None:
    body = request_of(**fragment) if client == "native" else {**PLAIN[client], **fragment}
    is_own = (client, upstream) == ("chat", "responses")
    if is_own:  # the way of the built-in tools, which are streamed
        body["tools"] = [*body.get("tools", ()), {"type": "web_search"}]
    is_stream = is_own or bool(body.get("stream"))
    sent, dropped = translated(client, upstream, body, stream=is_stream)
    if message is None:
        assert field in dropped
    elif message == "":
        assert dropped == []
    else:
        path, _, value = message.partition("=")
        assert at(sent, path) == json.loads(value)
        assert field not in dropped


def test_what_happens_anyway_is_not_listed() -> None:
    body = request_of(
        safetySettings=[],
        generationConfig={
            "candidateCount": 1,
            "responseModalities": ["TEXT"],
            "responseLogprobs": False,
            "mediaResolution": "MEDIA_RESOLUTION_UNSPECIFIED",
        },
        tools=[{"functionDeclarations": [{"name": "f", "behavior": "BLOCKING"}]}],
        toolConfig={"functionCallingConfig": {"mode": "MODE_UNSPECIFIED"}},
    )
    for upstream in TABLES["native"][1]:
        assert translated("native", upstream, body)[1] == []


def test_every_member_the_official_library_of_chat_knows_is_in_the_table() -> None:
    # Libraries are imported where they are asked: each takes a second or two of every collection.
    from openai.types.chat import completion_create_params

    known = set(completion_create_params.CompletionCreateParamsBase.__annotations__)
    assert known - {field for field, *_ in fields_of_chat.FIELDS} == set()


def test_every_member_the_official_library_of_responses_knows_is_in_the_table() -> None:
    from openai.types.responses import response_create_params

    known = set(response_create_params.ResponseCreateParamsBase.__annotations__)
    assert known - {field for field, *_ in fields_of_responses.FIELDS} == set()


def test_every_member_the_official_library_of_messages_knows_is_in_the_table() -> None:
    from anthropic.types import ContentBlockParam
    from anthropic.types.beta.message_create_params import (
        MessageCreateParamsBase as BetaMessageCreateParams,
    )
    from anthropic.types.message_create_params import MessageCreateParamsBase

    known = {*MessageCreateParamsBase.__annotations__, *BetaMessageCreateParams.__annotations__}
    fields = {field for field, *_ in fields_of_messages.FIELDS}
    refused = {"thread"}  # before any channel is chosen
    assert known - {field.partition(".")[0] for field in fields} == refused
    blocks = {kind for block in get_args(ContentBlockParam) for kind in kinds_of(block)}
    covered = [json.dumps(fragment) for _, fragment, *_ in fields_of_messages.FIELDS]
    assert "tool_use" in blocks
    assert {kind for kind in blocks if not any(f'"type": "{kind}"' in one for one in covered)} == (
        set()
    )


def kinds_of(block: Any) -> tuple[str, ...]:
    """The values of a typed dictionary's `type`."""
    return get_args(get_args(get_type_hints(block, include_extras=True)["type"])[0])


# What stands where in a native-content request, by the official library's types.
PLACES = [
    ("contents.parts", "Part"),
    ("contents.parts.functionCall", "FunctionCall"),
    ("contents.parts.functionResponse", "FunctionResponse"),
    ("generationConfig", "GenerationConfig"),
    ("generationConfig.thinkingConfig", "ThinkingConfig"),
    ("tools", "Tool"),
    ("tools.functionDeclarations", "FunctionDeclaration"),
    ("toolConfig", "ToolConfig"),
    ("toolConfig.functionCallingConfig", "FunctionCallingConfig"),
    ("", "GenerateContentConfig"),
]
# What the library keeps for itself; and the maximum, which goes beside the body here.
ELSEWHERE = {
    *("httpOptions", "shouldReturnHttpResponse", "automaticFunctionCalling"),
    *("continuationToken", "automaticContinuation", "generationOutputConfig"),
    "maxOutputTokens",
}


@each("place, kind", PLACES)
def test_every_member_the_official_library_of_gemini_knows_is_in_the_table(
    place: str, kind: str
) -> None:
    from google.genai import types

    fragments = [json.dumps(row[1]) for row in fields_of_gemini.FIELDS if row[0].startswith(place)]
    missing = {
        field.alias
        for field in getattr(types, kind).model_fields.values()
        if not any(f'"{field.alias}":' in fragment for fragment in fragments)
    }
    assert missing - ELSEWHERE == set()


def test_page_of_what_is_dropped_is_up_to_date() -> None:
    assert dropping.PAGE.read_text(encoding="utf-8") == dropping.page()

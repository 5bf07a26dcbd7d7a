"""Parses a gemini request, and makes the upstream's body of it.

Model and streaming are in the path. The client's bytes are kept, except for the token maximum in
`generationConfig` (contract §7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from channels.conversation import stand_in
from channels.dialects.validate import (
    INTEGER_MAX,
    MODEL_CHARACTERS_MAX,
    Count,
    Tables,
    check_model,
    counts,
    described,
    lookalikes_of,
    names_of,
    read_inner,
    read_members,
    setting,
    settings,
)
from channels.errors import InvalidRequest
from channels.json.json_object import NOTHING, JsonObject

# The members of a gemini request, as types and as text (spec: Native-content protocol).
#
# `GeminiBody` has the documented types, `LenientBody` those that the gateway itself needs;
# `ALLOWED` describes them to the client. Other members are forwarded unchecked.
#
# Upstreams accept a member's name in two spellings, `generationConfig` and `generation_config`; the
# gateway parses both of all members that it uses.


class Object(Struct, gc=False):
    """Any object; only the upstream uses its content."""


class Call(Struct, gc=False):
    """A function that the model called in an earlier turn."""

    name: str | UnsetType = UNSET
    args: Object | UnsetType | None = UNSET


class Result(Struct, gc=False):
    """The result of a function."""

    name: str | UnsetType = UNSET
    response: Object | UnsetType | None = UNSET


class Blob(Struct, rename="camel", gc=False):
    """Inline media."""

    mime_type: str | UnsetType = UNSET
    data: str | UnsetType = UNSET


class Part(Struct, rename="camel", gc=False):
    """One part of a turn: text, media, a function's call or result."""

    text: str | UnsetType | None = UNSET
    thought: bool | UnsetType | None = UNSET
    inline_data: Blob | UnsetType | None = UNSET
    file_data: Object | UnsetType | None = UNSET
    function_call: Call | UnsetType | None = UNSET
    function_response: Result | UnsetType | None = UNSET


class Content(Struct, gc=False):
    """One turn; the user's without a role. Clients send results under several roles."""

    parts: list[Part]
    role: Literal["user", "model", "function", "tool"] | None = None


class Instruction(Struct, gc=False):
    """Instructions; their role is ignored."""

    parts: list[Part]


class GenerationConfig(Struct, rename="camel", gc=False):
    """The response's settings. The maximum is parsed in both spellings."""

    max_output_tokens: Count | None = None
    max_output_tokens_spelled: Count | None = field(name="max_output_tokens", default=None)
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    candidate_count: Count | None = None
    stop_sequences: list[str] | None = None
    response_mime_type: str | None = None


class FunctionDeclaration(Struct, gc=False):
    """A function that the model may call."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | UnsetType | None = UNSET
    parameters: Object | UnsetType | None = UNSET


class Tool(Struct, gc=False):
    """Functions; or, in another member, a tool that the provider runs."""

    functions: list[FunctionDeclaration] | None = field(name="functionDeclarations", default=None)
    functions_spelled: list[FunctionDeclaration] | None = field(
        name="function_declarations", default=None
    )


class FunctionCalling(Struct, rename="camel", gc=False):
    """Whether functions must be called, and which."""

    mode: str | UnsetType | None = UNSET
    allowed_function_names: list[str] | UnsetType | None = UNSET


class ToolConfig(Struct, rename="camel", gc=False):
    """The use of tools."""

    function_calling_config: FunctionCalling | UnsetType | None = UNSET


class GeminiBody(Struct, rename="camel", gc=False):
    """The members that the gateway parses; `model` belongs in the path."""

    contents: Annotated[list[Content], Meta(min_length=1)]
    model: Any = None
    system_instruction: Instruction | None = None
    system_instruction_spelled: Instruction | None = field(name="system_instruction", default=None)
    generation_config: GenerationConfig | None = None
    generation_config_spelled: GenerationConfig | None = field(
        name="generation_config", default=None
    )
    tools: list[Tool] | None = None
    tool_config: ToolConfig | None = None


class LenientContent(Struct, gc=False):
    """One turn with any parts; upstreams accept one part in place of an array."""

    parts: list[Raw] | Object
    role: Literal["user", "model", "function", "tool"] | None = None


class LenientConfig(Struct, rename="camel", gc=False):
    """The settings of the response that the gateway counts or limits."""

    max_output_tokens: Count | None = None
    max_output_tokens_spelled: Count | None = field(name="max_output_tokens", default=None)
    temperature: float | None = None
    candidate_count: Count | None = None


class LenientBody(Struct, rename="camel", gc=False):
    """The members that the gateway needs, whether or not the upstream accepts the others.

    Upstreams accept one object in place of a documented array.
    """

    contents: Annotated[list[LenientContent], Meta(min_length=1)] | LenientContent
    model: Any = None
    system_instruction: Object | None = None
    system_instruction_spelled: Object | None = field(name="system_instruction", default=None)
    generation_config: LenientConfig | None = None
    generation_config_spelled: LenientConfig | None = field(name="generation_config", default=None)
    tools: list[Object] | Object | None = None


_PARTS = {
    "": "an array of parts",
    "[]": "an object such as one with text",
    "[].text": "a string",
    "[].thought": "a boolean",
    "[].inlineData": "an object with mimeType and data",
    "[].inlineData.mimeType": "a string",
    "[].inlineData.data": "a string of base64",
    "[].fileData": "an object",
    "[].functionCall": "an object with name and args",
    "[].functionCall.name": "a string",
    "[].functionCall.args": "an object",
    "[].functionResponse": "an object with name and response",
    "[].functionResponse.name": "a string",
    "[].functionResponse.response": "an object",
}
_COUNT = f"an integer from 1 to {INTEGER_MAX}"
_CONFIG = {
    "": "an object",
    ".maxOutputTokens": _COUNT,
    ".max_output_tokens": _COUNT,
    ".temperature": "a number",
    ".topP": "a number",
    ".topK": "a number",
    ".candidateCount": _COUNT,
    ".stopSequences": "an array of strings",
    ".stopSequences[]": "a string",
    ".responseMimeType": "a string",
}
_FUNCTIONS = {
    "": "an array of functions",
    "[]": "an object with name",
    "[].name": "a non-empty string",
    "[].description": "a string",
    "[].parameters": "an object that holds a schema",
}


def _below(name: str, members: dict[str, str]) -> dict[str, str]:
    return {f"{name}{member}": words for member, words in members.items()}


# The allowed values of each member as text; `[]` is any index.
ALLOWED = {
    "contents": "a non-empty array of turns",
    "contents[]": "an object with role and parts",
    "contents[].role": "one of user, model, function, tool",
    "contents.role": "one of user, model, function, tool",
    "contents.parts": "an array of parts",
    **_below("contents[].parts", _PARTS),
    "systemInstruction": "an object with parts",
    "system_instruction": "an object with parts",
    **_below("systemInstruction.parts", _PARTS),
    **_below("system_instruction.parts", _PARTS),
    **_below("generationConfig", _CONFIG),
    **_below("generation_config", _CONFIG),
    "tools": "an array of tools",
    "tools[]": "an object with functionDeclarations, or with a tool of the provider",
    **_below("tools[].functionDeclarations", _FUNCTIONS),
    **_below("tools[].function_declarations", _FUNCTIONS),
    "toolConfig": "an object",
    "toolConfig.functionCallingConfig": "an object with mode",
    "toolConfig.functionCallingConfig.mode": "a string such as AUTO",
    "toolConfig.functionCallingConfig.allowedFunctionNames": "an array of strings",
    "toolConfig.functionCallingConfig.allowedFunctionNames[]": "a string",
}


# The parameters of a gemini request for the call log, in both spellings.
_SETTINGS = frozenset(
    (
        "maxOutputTokens",
        "max_output_tokens",
        "temperature",
        "topP",
        "top_p",
        "topK",
        "top_k",
        "candidateCount",
        "candidate_count",
        "stopSequences",
        "stop_sequences",
        "responseMimeType",
        "response_mime_type",
        "seed",
        "frequencyPenalty",
        "presencePenalty",
        "responseModalities",
        "mediaResolution",
    )
)
# Members of the request itself.
_TOP_SETTINGS = frozenset(("serviceTier", "service_tier"))
_THINKING = ("thinkingConfig", "thinking_config")
_OF_THINKING = frozenset(
    (
        "thinkingBudget",
        "thinking_budget",
        "thinkingLevel",
        "thinking_level",
        "includeThoughts",
        "include_thoughts",
    )
)


def parameters(
    raw: Mapping[str, Raw],
    read: GeminiBody | LenientBody,
    *,
    stream: bool,
    config_name: str,
    config: JsonObject | None,
    builtin_tools: Sequence[str],
) -> dict[str, str]:
    """Return the parameters by the protocol's names; `contents` and `images` are counted.

    Functions and images are only counted in a documented body.
    """
    shown = {"stream": "true"} if stream else {}
    shown |= settings(raw, _TOP_SETTINGS)
    if config is not None:
        shown |= settings(config.raw, _SETTINGS, within=f"{config_name}.")
        for name in _THINKING:
            if name in config.raw:
                shown |= _thinking(config.raw[name], f"{config_name}.{name}.")
    if isinstance(read, LenientBody):
        contents = len(read.contents) if isinstance(read.contents, list) else 1
        return shown | counts(contents=contents)
    if read.tools:
        found = [tool.functions or tool.functions_spelled or () for tool in read.tools]
        names = [one.name for functions in found for one in functions]
        shown["tools"] = names_of([*names, *builtin_tools])
    shown |= _mode(read)
    parts = [part for content in read.contents for part in content.parts]
    return shown | counts(contents=len(read.contents), images=sum(map(_is_image, parts)))


def _thinking(raw: msgspec.Raw, within: str) -> dict[str, str]:
    try:
        config = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}  # the upstream refuses what is no object
    return settings(config, _OF_THINKING, within=within)


def _mode(read: GeminiBody) -> dict[str, str]:
    calling = None if read.tool_config is None else read.tool_config.function_calling_config
    if not calling or not isinstance(calling.mode, str):
        return {}
    return {"toolConfig.functionCallingConfig.mode": setting(calling.mode)}


def _is_image(part: Part) -> bool:
    blob = part.inline_data
    return isinstance(blob, Blob) and str(blob.mime_type).startswith("image/")


_TABLES = Tables(GeminiBody, LenientBody, ALLOWED)
_NAMES = lookalikes_of(GeminiBody.__struct_encode_fields__)
_TOOLS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | dict[str, msgspec.Raw])

_CONFIG_NAMES = ("generationConfig", "generation_config")
_MAXIMUM = ("maxOutputTokens", "max_output_tokens")
_INSTRUCTION = ("systemInstruction", "system_instruction")

_CAPITAL = re.compile(r"(?<!^)([A-Z])")
# Members of a tool that are not run by the provider.
_RUN_BY_CLIENT = frozenset(("function_declarations", "computer_use"))
# The names of web search.
_SEARCHES = frozenset(("google_search", "google_search_retrieval", "enterprise_web_search"))
# The prefix of a body's model named as a resource.
_RESOURCE = "models/"


class GeminiRequest(Struct, frozen=True):
    """A checked request, and what the gateway needs of it.

    `content_bytes`: the length of `contents` as received. `builtin_tools`: the distinct tools that
    the upstream runs, by member (`code_execution`); all kinds of search are `web_search`. `config`:
    the generation config, whose member is `config_name`. `parameters`: those of the call log.
    `fault`: raised by translations, judged by upstreams of this protocol.
    """

    object: JsonObject
    model: str
    stream: bool
    content_bytes: int
    max_tokens: int | None
    builtin_tools: tuple[str, ...] = ()
    config_name: str = _CONFIG_NAMES[0]
    config: JsonObject | None = None
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: InvalidRequest | None = None


def read_request(body: bytes, *, model: str, stream: bool) -> GeminiRequest:
    """Parse a request body; model and stream are the path's. Raises InvalidRequest."""
    if not 1 <= len(model) <= MODEL_CHARACTERS_MAX:
        raise InvalidRequest(
            f"model: expected 1 to {MODEL_CHARACTERS_MAX} characters in the path.", "model"
        )
    check_model(model)
    members = read_members(body, _NAMES)
    read, fault = _TABLES.read(members)
    _check_same_model(read.model, model)
    _spelling(members, _INSTRUCTION, within="")
    config_name = _spelling(members, _CONFIG_NAMES, within="")
    config = read_inner(members, config_name)
    if config is not None:
        _spelling(config, _MAXIMUM, within=f"{config_name}.")
    tools = _builtin_tools(members.raw["tools"]) if read.tools else ()
    return GeminiRequest(
        members,
        model,
        stream,
        len(members.raw["contents"]),
        _max_tokens(read.generation_config or read.generation_config_spelled),
        tools,
        config_name,
        config,
        parameters(
            members.raw,
            read,
            stream=stream,
            config_name=config_name,
            config=config,
            builtin_tools=tools,
        ),
        fault,
    )


def upstream_body(
    request: GeminiRequest, *, upstream_model: str, default_max_tokens: int | None
) -> bytes:
    """Return the client's body for one channel; the same bytes if nothing changes.

    `default_max_tokens` is added if the client states no maximum; None adds nothing. The model is
    in the path, and only replaced here if the client has it in the body as well.
    """
    members = request.object
    replace: dict[str, bytes] = {}
    add: dict[str, bytes] = {}
    if request.model != upstream_model and (named := members.raw.get("model")) is not None:
        prefix = _RESOURCE if bytes(named).startswith(b'"models/') else ""
        if bytes(named) != b"null":
            replace["model"] = msgspec.json.encode(prefix + upstream_model)
    if request.max_tokens is None and default_max_tokens is not None:
        target = replace if request.config_name in members.raw else add
        target[request.config_name] = _with_maximum(request.config, b"%d" % default_max_tokens)
    if not replace and not add:
        return members.body
    return members.edited(replace=replace, add=add)


def without_body(request: GeminiRequest) -> GeminiRequest:
    """Return the request without the parts that grow with its body."""
    config = None if request.config is None else NOTHING
    return replace(request, object=stand_in(request.object), config=config)


def _with_maximum(config: JsonObject | None, maximum: bytes) -> bytes:
    """Return the generation config with a maximum; other members are unchanged."""
    if config is None:
        return b'{"%b":%b}' % (_MAXIMUM[0].encode(), maximum)
    for name in _MAXIMUM:
        if name in config.raw:  # a null counts as absent
            return config.edited(replace={name: maximum}, add={})
    return config.edited(replace={}, add={_MAXIMUM[0]: maximum})


def _spelling(members: JsonObject, names: tuple[str, str], *, within: str) -> str:
    """Return the spelling of a member; raise InvalidRequest for both together."""
    usual, other = names
    if other not in members.raw:
        return usual
    if usual in members.raw:
        raise InvalidRequest(
            f"{within}{other} is {within}{usual} in another spelling; send one.", within + other
        )
    return other


def _check_same_model(named: object, model: str) -> None:
    """Refuse a body whose model differs from the path's, since an upstream may use either."""
    if named is None or named in (model, _RESOURCE + model):
        return
    raise InvalidRequest(
        f"model: {described(named)} is not the model in the path; leave it out.", "model"
    )


def _max_tokens(config: GenerationConfig | LenientConfig | None) -> int | None:
    if config is None:
        return None
    if config.max_output_tokens is not None:
        return config.max_output_tokens
    return config.max_output_tokens_spelled


def _builtin_tools(tools: msgspec.Raw) -> tuple[str, ...]:
    kinds: dict[str, None] = {}
    stated = _TOOLS.decode(tools)
    for tool in [stated] if isinstance(stated, dict) else stated:
        for member, value in tool.items():
            kind = _CAPITAL.sub(r"_\1", member).lower()
            if kind in _SEARCHES:
                kind = "web_search"
            if kind not in _RUN_BY_CLIENT and bytes(value) != b"null":
                kinds[kind] = None
    return tuple(kinds)

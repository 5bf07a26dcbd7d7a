"""Parses a gemini request, and makes the upstream's body of it.

Model and streaming are in the path. The client's bytes are kept, except for the token maximum in
`generationConfig` (reference 2.5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from channels.conversation import stand_in
from channels.dialects import logged_parameters, validation
from channels.dialects.gemini.members import (
    LOGGED,
    Blob,
    ContentPart,
    GeminiBody,
    GenerationConfig,
    ThinkingConfig,
)
from channels.dialects.path_model import check_path_model, check_same_model, renamed_model
from channels.errors import InvalidRequest
from channels.json.json_object import NOTHING, JsonObject

# Members of the request itself.
_TOP_SETTINGS = frozenset(("serviceTier", "service_tier"))
_THINKING = ("thinkingConfig", "thinking_config")
_OF_THINKING = frozenset(ThinkingConfig.__struct_fields__ + ThinkingConfig.__struct_encode_fields__)


def parameters(
    raw: Mapping[str, Raw],
    read: GeminiBody,
    *,
    is_documented: bool,
    stream: bool,
    config_name: str,
    config: JsonObject | None,
    builtin_tools: Sequence[str],
) -> dict[str, str]:
    """Return the parameters by the protocol's names; `contents` and `images` are counted.

    Functions and images are only counted in a documented body.
    """
    shown = {"stream": "true"} if stream else {}
    shown |= logged_parameters.settings(raw, _TOP_SETTINGS)
    if config is not None:
        shown |= logged_parameters.settings(config.raw, LOGGED, within=f"{config_name}.")
        for name in _THINKING:
            if name in config.raw:
                shown |= _thinking(config.raw[name], f"{config_name}.{name}.")
    if not is_documented:
        contents = len(read.contents) if isinstance(read.contents, list) else 1
        return shown | logged_parameters.counts(contents=contents)
    if read.tools:
        found = [tool.functions or tool.functions_spelled or () for tool in read.tools]
        names = [one.name for functions in found for one in functions]
        shown["tools"] = logged_parameters.names_of([*names, *builtin_tools])
    shown |= _mode(read)
    parts = [part for content in read.contents for part in content.parts]
    return shown | logged_parameters.counts(
        contents=len(read.contents), images=sum(map(_is_image, parts))
    )


def _thinking(raw: msgspec.Raw, within: str) -> dict[str, str]:
    try:
        config = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}  # the upstream refuses what is no object
    return logged_parameters.settings(config, _OF_THINKING, within=within)


def _mode(read: GeminiBody) -> dict[str, str]:
    calling = None if read.tool_config is None else read.tool_config.function_calling_config
    if not calling or not isinstance(calling.mode, str):
        return {}
    return {"toolConfig.functionCallingConfig.mode": logged_parameters.setting(calling.mode)}


def _is_image(part: ContentPart) -> bool:
    blob = part.inline_data
    return isinstance(blob, Blob) and str(blob.mime_type).startswith("image/")


_TABLES = validation.Tables(GeminiBody)
_NAMES = validation.lookalikes_of(GeminiBody.__struct_encode_fields__)
_TOOLS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | dict[str, msgspec.Raw])

_CONFIG_NAMES = ("generationConfig", "generation_config")
_MAXIMUM = ("maxOutputTokens", "max_output_tokens")
_INSTRUCTION = ("systemInstruction", "system_instruction")

_CAPITAL = re.compile(r"(?<!^)([A-Z])")
# Members of a tool that are not run by the provider.
_RUN_BY_CLIENT = frozenset(("function_declarations", "computer_use"))
# The names of web search.
_SEARCHES = frozenset(("google_search", "google_search_retrieval", "enterprise_web_search"))


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
    check_path_model(model)
    members = validation.read_members(body, _NAMES)
    read, fault = _TABLES.read(members)
    check_same_model(read.model, model)
    _spelling(members, _INSTRUCTION, within="")
    config_name = _spelling(members, _CONFIG_NAMES, within="")
    config = validation.read_inner(members, config_name)
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
            is_documented=fault is None,
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
    if request.model != upstream_model:
        replace |= renamed_model(members, upstream_model)
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


def _max_tokens(config: GenerationConfig | None) -> int | None:
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

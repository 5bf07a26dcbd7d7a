"""Read a gemini request, and make of it the body an upstream is sent.

Model and streaming come with the path. The client's bytes are kept: only the token maximum is
edited in, within `generationConfig` (contract §7). The members' types are in `schema.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.gemini.parameters import parameters
from channels.dialects.gemini.schema import (
    ALLOWED,
    GeminiBody,
    GenerationConfig,
    LenientBody,
    LenientConfig,
)
from channels.dialects.type_errors import described
from channels.dialects.validate import (
    MODEL_CHARACTERS_MAX,
    Tables,
    check_model,
    lookalikes_of,
    read_inner,
    read_members,
)
from channels.errors import InvalidRequest
from channels.json.members import NOTHING, JsonObject

_TABLES = Tables(GeminiBody, LenientBody, ALLOWED)
_NAMES = lookalikes_of(GeminiBody.__struct_encode_fields__)
_TOOLS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | dict[str, msgspec.Raw])

_CONFIG = ("generationConfig", "generation_config")
_MAXIMUM = ("maxOutputTokens", "max_output_tokens")
_INSTRUCTION = ("systemInstruction", "system_instruction")

_CAPITAL = re.compile(r"(?<!^)([A-Z])")
# Members of a tool that name nothing the provider runs.
_RUN_BY_CLIENT = frozenset(("function_declarations", "computer_use"))
# Web search under its several names.
_SEARCHES = frozenset(("google_search", "google_search_retrieval", "enterprise_web_search"))
# A body may name its model as a resource.
_RESOURCE = "models/"


class GeminiRequest(Struct, frozen=True):
    """A checked request, and what the gateway needs to know of it.

    `content_bytes` is the length of `contents` as sent; `builtin_tools` are the tools that the
    upstream runs, each once, by the name of their member (`code_execution`), every kind of
    searching as `web_search`. `config` is the generation config, under the name it came by;
    `parameters` is what the call log shows; `fault` is what a translation refuses, and an upstream
    of this protocol judges.
    """

    object: JsonObject
    model: str
    stream: bool
    content_bytes: int
    max_tokens: int | None
    builtin_tools: tuple[str, ...] = ()
    config_name: str = _CONFIG[0]
    config: JsonObject | None = None
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: InvalidRequest | None = None


def read_request(body: bytes, *, model: str, stream: bool) -> GeminiRequest:
    """Check a request body; model and stream are the path's. Raises InvalidRequest."""
    if not 1 <= len(model) <= MODEL_CHARACTERS_MAX:
        raise InvalidRequest(
            f"model: expected 1 to {MODEL_CHARACTERS_MAX} characters in the path.", "model"
        )
    check_model(model)
    members = read_members(body, _NAMES)
    read, fault = _TABLES.read(members)
    _check_same_model(read.model, model)
    _spelling(members, _INSTRUCTION, within="")
    config_name = _spelling(members, _CONFIG, within="")
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
            read, stream=stream, config_name=config_name, config=config, builtin_tools=tools
        ),
        fault,
    )


def upstream_body(
    request: GeminiRequest, *, upstream_model: str, default_max_tokens: int | None
) -> bytes:
    """The client's body as one channel wants it; the same bytes when nothing has to change.

    `default_max_tokens` is put in when the client named no maximum; None leaves it out. The model
    is in the path, and replaced here only where the client has it in the body as well.
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
    """The request with nothing in it that grows with its body."""
    config = None if request.config is None else NOTHING
    return replace(request, object=NOTHING, config=config)


def _with_maximum(config: JsonObject | None, maximum: bytes) -> bytes:
    """The generation config with a maximum, its other members as they were."""
    if config is None:
        return b'{"%b":%b}' % (_MAXIMUM[0].encode(), maximum)
    for name in _MAXIMUM:
        if name in config.raw:  # a null is as good as nothing
            return config.edited(replace={name: maximum}, add={})
    return config.edited(replace={}, add={_MAXIMUM[0]: maximum})


def _spelling(members: JsonObject, names: tuple[str, str], *, within: str) -> str:
    """Which of its two names a member has; both together would leave open which one counts."""
    usual, other = names
    if other not in members.raw:
        return usual
    if usual in members.raw:
        raise InvalidRequest(
            f"{within}{other} is {within}{usual} in another spelling; send one.", within + other
        )
    return other


def _check_same_model(named: object, model: str) -> None:
    """The path says the model; a body that says another is refused, as an upstream may read it."""
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

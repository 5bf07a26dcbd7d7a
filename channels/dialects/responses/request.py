"""Parse a responses request, and make the body for an upstream from it.

The client's bytes are kept: only the model's name and the token maximum are edited in, and a string
as input becomes one user message (spec: Responses protocol; contract §7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from channels.conversation import stand_in
from channels.dialects.responses.tools import CLIENT_TOOLS, is_run_by_client
from channels.dialects.validate import (
    INTEGER_MAX,
    MODEL_CHARACTERS_MAX,
    TOOL_TYPE_CHARACTERS_MAX,
    Count,
    Tables,
    check_model,
    counts,
    lookalikes_of,
    names_of,
    read_members,
    setting,
    settings,
    unversioned,
)
from channels.errors import InvalidRequest
from channels.json.json_object import JsonObject

# The members of a responses request, as types and in words (spec: Chat, responses protocol).
#
# `ResponsesBody` has the documented types, `LenientBody` those that the gateway itself needs;
# `ALLOWED` has the same in words, for error messages. Other members are forwarded unread.


class Object(Struct, gc=False):
    """Any object; the upstream validates its members."""


class Part(Struct, gc=False):
    """One part of a content array: text, image, file."""

    type: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    image_url: str | UnsetType | None = UNSET
    detail: str | UnsetType | None = UNSET


class Item(Struct, gc=False):
    """A message, or, with another type, an output item of an earlier response, or a tool list."""

    type: str | UnsetType = UNSET
    role: Literal["user", "assistant", "system", "developer"] | UnsetType = UNSET
    content: str | list[Part] | UnsetType | None = UNSET
    call_id: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET


class Tool(Struct, gc=False):
    """A function, or a built-in tool such as web_search."""

    type: Annotated[str, Meta(min_length=1, max_length=TOOL_TYPE_CHARACTERS_MAX)]
    name: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    parameters: Object | UnsetType | None = UNSET
    execution: Any = None
    environment: Any = None


class ToolChoice(Struct, gc=False):
    """A selector of one tool."""

    type: str | UnsetType = UNSET
    name: str | UnsetType | None = UNSET


class Reasoning(Struct, gc=False):
    """The requested amount of thinking, and whether it is shown."""

    effort: str | UnsetType | None = UNSET
    summary: str | UnsetType | None = UNSET


class ResponsesBody(Struct, gc=False):
    """Every member that the gateway reads. `Any` is used if only presence matters."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    input: str | Annotated[list[Item], Meta(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: Count | None = None
    reasoning: Reasoning | None = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tools: list[Tool] | None = None
    tool_choice: str | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: Any = None
    conversation: Any = None
    background: bool | None = None


class LenientItem(Struct, gc=False):
    """An item: its type, and the role and content of a message."""

    type: str | UnsetType | None = UNSET
    role: str | UnsetType | None = UNSET
    content: str | list[Raw] | UnsetType | None = UNSET


class LenientTool(Struct, gc=False):
    """A tool, of which only the type is needed, and where it runs."""

    type: Annotated[str, Meta(min_length=1, max_length=TOOL_TYPE_CHARACTERS_MAX)] | None = None
    execution: Any = None
    environment: Any = None


class LenientBody(Struct, gc=False):
    """The members that the gateway needs, whether or not the upstream accepts the rest."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    input: str | Annotated[list[LenientItem], Meta(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: Count | None = None
    reasoning: Object | None = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tools: list[LenientTool] | None = None
    tool_choice: str | Object | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: Any = None
    conversation: Any = None
    background: bool | None = None


# The allowed values of each member, in words; `[]` stands for any index.
ALLOWED = {
    "model": f"a string of 1 to {MODEL_CHARACTERS_MAX} characters",
    "input": "a string or a non-empty array of items",
    "input[]": "an object with role and content, or with type",
    "input[].type": "a string such as message",
    "input[].role": "one of user, assistant, system, developer",
    "input[].content": "a string or an array of parts",
    "input[].content[]": "an object with type",
    "input[].content[].type": "a string such as input_text",
    "input[].content[].text": "a string",
    "input[].content[].image_url": "a string",
    "input[].content[].detail": "a string",
    "input[].call_id": "a string",
    "input[].name": "a string",
    "instructions": "a string",
    "stream": "a boolean",
    "max_output_tokens": f"an integer from 1 to {INTEGER_MAX}",
    "reasoning": "an object",
    "reasoning.effort": "a string such as low, medium or high",
    "reasoning.summary": "a string",
    "temperature": "a number",
    "top_p": "a number",
    "frequency_penalty": "a number",
    "presence_penalty": "a number",
    "tools": "an array of tools",
    "tools[]": "an object with type",
    "tools[].type": f"a string of 1 to {TOOL_TYPE_CHARACTERS_MAX} characters such as web_search",
    "tools[].name": "a non-empty string",
    "tools[].description": "a string",
    "tools[].parameters": "an object that holds a JSON schema",
    "tool_choice": "a string or an object",
    "tool_choice.type": "a string",
    "tool_choice.name": "a string",
    "parallel_tool_calls": "a boolean",
    "background": "a boolean",
}


# The parameters of a responses request, for the call log.

_SETTINGS = frozenset(
    (
        "stream",
        "max_output_tokens",
        "temperature",
        "top_p",
        "frequency_penalty",
        "presence_penalty",
        "top_logprobs",
        "tool_choice",
        "parallel_tool_calls",
        "max_tool_calls",
        "truncation",
        "service_tier",
        "store",
    )
)


def parameters(raw: Mapping[str, msgspec.Raw], read: ResponsesBody | LenientBody) -> dict[str, str]:
    """Return the parameters by protocol name, with the number of `input` items and `images`.

    Tools and images are only recognised in a documented body.
    """
    shown = settings(raw, _SETTINGS)
    if isinstance(read, LenientBody):
        return shown | counts(input=len(read.input))
    if read.reasoning is not None:
        for name in ("effort", "summary"):
            value = getattr(read.reasoning, name)
            if isinstance(value, str):
                shown[f"reasoning.{name}"] = setting(value)
    if "text" in raw:
        shown |= _text(raw["text"])
    if read.tools:
        shown["tools"] = names_of([_name(tool) for tool in read.tools])
    if isinstance(read.input, str):
        return shown | {"input": "a string"}
    return shown | counts(input=len(read.input), images=_images(read))


def _text(raw: msgspec.Raw) -> dict[str, str]:
    try:
        config = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}  # not an object: the upstream refuses it
    return settings(config, ("format", "verbosity"), within="text.")


def _name(tool: Tool) -> str:
    return tool.type if tool.name is msgspec.UNSET else tool.name


def _images(read: ResponsesBody) -> int:
    found = 0
    for item in read.input:
        if not isinstance(item, str) and isinstance(item.content, list):
            found += [part.type for part in item.content].count("input_image")
    return found


_TABLES = Tables(ResponsesBody, LenientBody, ALLOWED)
_NAMES = lookalikes_of(ResponsesBody.__struct_fields__)

# Tools that the client runs itself; the provider only trained its models for them.
_RUN_BY_CLIENT = frozenset(("function", "custom", "namespace", "computer", "computer_use"))


class ResponsesRequest(Struct, frozen=True):
    """A checked request, and the facts that the gateway needs.

    `content_bytes` is the length of `input` as sent; `builtin_tools` are the tools that the
    upstream runs, each once, by type without version; `parameters` are those for the call log;
    `fault` is an error that an upstream of this protocol judges itself.
    """

    object: JsonObject
    model: str
    stream: bool
    content_bytes: int
    max_tokens: int | None
    builtin_tools: tuple[str, ...] = ()
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: InvalidRequest | None = None


def read_request(body: bytes) -> ResponsesRequest:
    """Check a request body. Raises InvalidRequest with the faulty member."""
    members = read_members(body, _NAMES)
    read, fault = _TABLES.read(members)
    _refuse_stored(read)
    if isinstance(read.input, list):
        _check_items(read.input)
    return ResponsesRequest(
        members,
        check_model(read.model),
        read.stream is True,
        len(members.raw["input"]),
        read.max_output_tokens,
        _builtin_tools(read.tools) if read.tools else (),
        parameters(members.raw, read),
        fault,
    )


def upstream_body(
    request: ResponsesRequest, *, upstream_model: str, default_max_tokens: int | None
) -> bytes:
    """Return the body for one channel; the client's own bytes if nothing has to change.

    `default_max_tokens` is sent if the client has no maximum; None leaves it out.
    """
    raw = request.object.raw
    replace: dict[str, bytes] = {}
    add: dict[str, bytes] = {}
    if request.model != upstream_model:
        replace["model"] = msgspec.json.encode(upstream_model)
    if request.max_tokens is None and default_max_tokens is not None:
        # A null counts as missing, but a name must not occur twice.
        target = replace if "max_output_tokens" in raw else add
        target["max_output_tokens"] = b"%d" % default_max_tokens
    text = bytes(raw["input"])
    if text[:1] == b'"':
        replace["input"] = b'[{"role":"user","content":%b}]' % text
    if not replace and not add:
        return request.object.body
    return request.object.edited(replace=replace, add=add)


def without_body(request: ResponsesRequest) -> ResponsesRequest:
    """Return the request without anything that grows with its body."""
    return replace(request, object=stand_in(request.object))


def _refuse_stored(read: ResponsesBody | LenientBody) -> None:
    """Refuse members that need a stored response: none is stored (spec: Responses protocol).

    Nor may the upstream store it, whose account is shared: a tenant could name another's.
    """
    if read.previous_response_id is not None:
        raise InvalidRequest(
            "previous_response_id: conversations are not stored here; "
            "send the whole history in `input` each time.",
            "previous_response_id",
        )
    if read.conversation is not None:
        raise InvalidRequest(
            "conversation: conversations are not stored here; "
            "send the whole history in `input` each time.",
            "conversation",
        )
    if read.background:
        raise InvalidRequest(
            "background: answers are not stored here, so none can be fetched later; "
            "leave it out or send false.",
            "background",
        )


def _check_items(items: Iterable[Item | LenientItem]) -> None:
    for index, item in enumerate(items):
        if item.type == "item_reference":  # also to one that another tenant has stored
            raise InvalidRequest(
                f"input[{index}]: items are not stored here, so none can be referred to; "
                "send the item itself.",
                f"input[{index}]",
            )
        if item.type is msgspec.UNSET:
            missing = "role" if item.role is msgspec.UNSET else "content"
            if missing == "content" and item.content is not msgspec.UNSET:
                continue
            param = f"input[{index}].{missing}"
            words = ALLOWED[f"input[].{missing}"]
            raise InvalidRequest(f"{param} is missing: expected {words}.", param)


def _builtin_tools(tools: Iterable[Tool | LenientTool]) -> tuple[str, ...]:
    kinds = dict.fromkeys(
        unversioned(tool.type)
        for tool in tools
        if tool.type is not None and not _is_run_by_client(tool)
    )
    return tuple(kind for kind in kinds if kind not in _RUN_BY_CLIENT)


def _is_run_by_client(tool: Tool | LenientTool) -> bool:
    stated = {"type": tool.type, "execution": tool.execution, "environment": tool.environment}
    return tool.type in CLIENT_TOOLS and is_run_by_client(stated)

"""Parse a messages request, and make the body for an upstream from it.

The client's bytes are kept: only the model's name is edited in, because this protocol requires the
client to state its token maximum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from channels.conversation import stand_in
from channels.dialects.faults import described
from channels.dialects.logged_parameters import counts, names_of, settings
from channels.dialects.messages.billing_header import body_without
from channels.dialects.validation import (
    INTEGER_MAX,
    MODEL_CHARACTERS_MAX,
    TOOL_TYPE_CHARACTERS_MAX,
    Count,
    Tables,
    check_model,
    lookalikes_of,
    read_members,
)
from channels.errors import InvalidRequest
from channels.json.json_object import JsonObject
from channels.registry import ChannelSpec, ModelSpec

# The members of a messages request, as types and in words (spec: Chat, messages protocol).
#
# `MessagesBody` has the documented types, `LenientBody` those that the gateway itself needs;
# `ALLOWED` has the same in words, for error messages. Other members are forwarded unread.


class Object(Struct, gc=False):
    """Any object; the upstream validates its members."""


class Block(Struct, gc=False):
    """One block of content: text, image, document, thinking, a tool's call or result."""

    type: str
    text: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    input: Object | UnsetType = UNSET
    tool_use_id: str | UnsetType = UNSET
    source: Object | str | UnsetType = UNSET  # a string only in a search result: its origin


class Message(Struct, gc=False):
    """One turn. Instructions within a conversation have their own role."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(Struct, gc=False):
    """A tool of the client's, or, with a type other than `custom`, one defined by the provider."""

    type: Annotated[str, Meta(min_length=1, max_length=TOOL_TYPE_CHARACTERS_MAX)] | None = None
    name: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    input_schema: Object | UnsetType = UNSET


class ToolChoice(Struct, gc=False):
    """Whether tools must be used, and which."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | UnsetType = UNSET
    disable_parallel_tool_use: bool | UnsetType | None = UNSET


class Thinking(Struct, gc=False):
    """Whether and how much the model thinks."""

    type: str
    budget_tokens: int | UnsetType | None = UNSET


class MessagesBody(Struct, gc=False):
    """The members that the gateway reads, and their types."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    max_tokens: Count
    messages: Annotated[list[Message], Meta(min_length=1)]
    system: str | list[Block] | None = None
    stream: bool | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    metadata: Object | None = None
    inference_geo: str | None = None


class LenientMessage(Struct, gc=False):
    """One turn of any content."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Raw]


class LenientTool(Struct, gc=False):
    """A tool, of which only the type is needed."""

    type: Annotated[str, Meta(min_length=1, max_length=TOOL_TYPE_CHARACTERS_MAX)] | None = None


class LenientBody(Struct, gc=False):
    """The members that the gateway needs, whether or not the upstream accepts the rest."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    max_tokens: Count
    messages: Annotated[list[LenientMessage], Meta(min_length=1)]
    system: str | list[Raw] | None = None
    stream: bool | None = None
    tools: list[LenientTool] | None = None
    tool_choice: Object | None = None
    temperature: float | None = None
    inference_geo: str | None = None  # priced


_BLOCK = {
    "": "an object with type",
    ".type": "a string such as text",
    ".text": "a string",
    ".id": "a string",
    ".name": "a string",
    ".input": "an object",
    ".tool_use_id": "a string",
    ".source": "an object with type",
}

# The allowed values of each member, in words; `[]` stands for any index.
ALLOWED = {
    "model": f"a string of 1 to {MODEL_CHARACTERS_MAX} characters",
    "max_tokens": f"an integer from 1 to {INTEGER_MAX}",
    "messages": "a non-empty array of messages",
    "messages[]": "an object with role and content",
    "messages[].role": "one of user, assistant, system",
    "messages[].content": "a string or an array of content blocks",
    **{f"messages[].content[]{member}": words for member, words in _BLOCK.items()},
    "system": "a string or an array of text blocks",
    **{f"system[]{member}": words for member, words in _BLOCK.items()},
    "stream": "a boolean",
    "tools": "an array of tools",
    "tools[]": "an object with name and input_schema",
    "tools[].type": f"a string of 1 to {TOOL_TYPE_CHARACTERS_MAX} characters such as custom",
    "tools[].name": "a non-empty string",
    "tools[].description": "a string",
    "tools[].input_schema": "an object that holds a JSON schema",
    "tool_choice": "an object with type",
    "tool_choice.type": "one of auto, any, tool, none",
    "tool_choice.name": "a string",
    "tool_choice.disable_parallel_tool_use": "a boolean",
    "thinking": "an object with type",
    "thinking.type": "a string such as enabled",
    "thinking.budget_tokens": "an integer",
    "temperature": "a number",
    "top_p": "a number",
    "top_k": "an integer",
    "stop_sequences": "an array of strings",
    "stop_sequences[]": "a string",
    "metadata": "an object",
    "inference_geo": "a string such as us",
}


# The parameters of a messages request, for the call log.

_SETTINGS = frozenset(
    (
        "stream",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "thinking",
        "tool_choice",
        "service_tier",
        "speed",
        "inference_geo",
    )
)


def parameters(raw: Mapping[str, msgspec.Raw], read: MessagesBody | LenientBody) -> dict[str, str]:
    """Return the parameters by protocol name, with the number of `messages` and `images`.

    Tools and images are only recognised in a documented body.
    """
    shown = settings(raw, _SETTINGS)
    if isinstance(read, LenientBody):
        return shown | counts(messages=len(read.messages))
    if read.thinking is not None and isinstance(read.thinking.budget_tokens, int):
        shown["thinking.budget_tokens"] = str(read.thinking.budget_tokens)
    if "output_config" in raw:
        shown |= _effort(raw["output_config"])
    if read.tools:
        shown["tools"] = names_of([_name(tool) for tool in read.tools])
    return shown | counts(messages=len(read.messages), images=_images(read))


def _effort(raw: msgspec.Raw) -> dict[str, str]:
    try:
        config = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}  # not an object: the upstream refuses it
    return settings(config, ("effort",), within="output_config.")


def _name(tool: Tool) -> str:
    return (tool.type or "") if tool.name is msgspec.UNSET else tool.name


def _images(read: MessagesBody) -> int:
    found = 0
    for message in read.messages:
        if isinstance(message.content, list):
            found += [block.type for block in message.content].count("image")
    return found


_TABLES = Tables(MessagesBody, LenientBody, ALLOWED)
_NAMES = lookalikes_of((*MessagesBody.__struct_fields__, "thread"))

# A provider's tools have the date of their version in their type: web_search_20250305.
_DATE = re.compile(r"_\d{8}\Z")
# Tools that the client runs itself; the provider only trained its models for them.
_RUN_BY_CLIENT = frozenset(
    (
        "custom",
        "bash",
        "browser_toolset",
        "computer",
        "computer_toolset",
        "memory",
        "text_editor",
    )
)
# The texts that client libraries of this protocol search for.
_THREAD_UNSUPPORTED: Mapping[str, Any] = {
    "error_code": "thread_unsupported_request",
    "unsupported": [],
}


class MessagesRequest(Struct, frozen=True):
    """A checked request, and the facts that the gateway needs.

    `content_bytes` is the length of `messages` as sent; `builtin_tools` are the tools that the
    upstream runs, each once, by type without date; `parameters` are those for the call log; `fault`
    is an error for a translation, which an upstream of this protocol judges itself.
    """

    object: JsonObject
    model: str
    stream: bool
    content_bytes: int
    max_tokens: int
    builtin_tools: tuple[str, ...] = ()
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: InvalidRequest | None = None


def read_request(body: bytes) -> MessagesRequest:
    """Check a request body. Raises InvalidRequest with the faulty member."""
    members = read_members(body, _NAMES)
    _refuse_thread(members)
    read, fault = _TABLES.read(members)
    if isinstance(read, MessagesBody):
        fault = _fault(read)
    return MessagesRequest(
        members,
        check_model(read.model),
        read.stream is True,
        len(members.raw["messages"]),
        read.max_tokens,
        _builtin_tools(read.tools) if read.tools else (),
        parameters(members.raw, read),
        fault,
    )


def upstream_body(
    request: MessagesRequest, *, upstream_model: str, drops_billing_header: bool = False
) -> bytes:
    """Return the body for one channel; the client's own bytes if nothing has to change."""
    body = request.object.body
    if request.model != upstream_model:
        name = msgspec.json.encode(upstream_model)
        body = request.object.edited(replace={"model": name}, add={})
    return body_without(body) if drops_billing_header else body


def options_of(upstream_model: str, channel: ChannelSpec, model: ModelSpec) -> dict[str, Any]:
    """Return the options of `upstream_body` for a channel."""
    return {
        "upstream_model": upstream_model,
        "drops_billing_header": channel.drops_billing_header,
    }


def without_body(request: MessagesRequest) -> MessagesRequest:
    """Return the request without anything that grows with its body."""
    return replace(request, object=stand_in(request.object))


def _refuse_thread(members: JsonObject) -> None:
    """Refuse to continue, or to begin, a conversation that the upstream would store.

    The upstream's account is shared, and the next call may use another channel. Client libraries
    read the details, and then send the whole history (contract §7: Threads).
    """
    thread = members.raw.get("thread")
    if thread is not None and bytes(thread) != b"null":
        raise InvalidRequest(
            "thread: conversations are not stored here; "
            "send the whole history in `messages` each time, without `thread`.",
            "thread",
            details=_THREAD_UNSUPPORTED,
        )


def _fault(read: MessagesBody) -> InvalidRequest | None:
    """Return what the types do not show: a choice without a tool, a text source, half a tool."""
    choice = None if read.tool_choice is None else _fault_of_choice(read.tool_choice)
    return choice or _fault_of_sources(read.messages) or _fault_of_tools(read.tools or ())


def _fault_of_choice(choice: ToolChoice) -> InvalidRequest | None:
    if choice.type != "tool" or choice.name:
        return None
    return InvalidRequest(
        "tool_choice.name is missing: expected the name of a tool.", "tool_choice.name"
    )


def _fault_of_sources(messages: Iterable[Message]) -> InvalidRequest | None:
    for position, message in enumerate(messages):
        if isinstance(message.content, str):
            continue
        for index, block in enumerate(message.content):
            if isinstance(block.source, str) and block.type != "search_result":
                param = f"messages[{position}].content[{index}].source"
                words = ALLOWED["messages[].content[].source"]
                found = described(block.source)
                return InvalidRequest(f"{param}: expected {words}, found {found}.", param)
    return None


def _fault_of_tools(tools: Iterable[Tool]) -> InvalidRequest | None:
    for index, tool in enumerate(tools):
        if _kind(tool) == "custom":
            for name, value in (("name", tool.name), ("input_schema", tool.input_schema)):
                if value is msgspec.UNSET:
                    param = f"tools[{index}].{name}"
                    words = ALLOWED[f"tools[].{name}"]
                    return InvalidRequest(f"{param} is missing: expected {words}.", param)
    return None


def _kind(tool: Tool | LenientTool) -> str:
    """Return a tool's type without its date."""
    return "custom" if tool.type is None else _DATE.sub("", tool.type)


def _builtin_tools(tools: Iterable[Tool | LenientTool]) -> tuple[str, ...]:
    kinds = dict.fromkeys(map(_kind, tools))
    return tuple(kind for kind in kinds if kind not in _RUN_BY_CLIENT)

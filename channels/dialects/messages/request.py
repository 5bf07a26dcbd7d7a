"""Parse a messages request, and make the body for an upstream from it.

The client's bytes are kept: only the model's name is edited in, because this protocol requires the
client to state its token maximum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.conversation import stand_in
from channels.dialects import validation
from channels.dialects.faults import described
from channels.dialects.logged_parameters import counts, names_of, settings
from channels.dialects.messages.billing_header import body_without
from channels.dialects.messages.members import (
    LOGGED,
    InputMessage,
    MessagesBody,
    MessagesTool,
    MessagesToolChoice,
)
from channels.errors import InvalidRequest
from channels.json.json_object import JsonObject
from channels.registry import ChannelSpec, ModelSpec


def parameters(
    raw: Mapping[str, msgspec.Raw], read: MessagesBody, *, is_documented: bool
) -> dict[str, str]:
    """Return the parameters for the call log, with the number of `messages` and `images`.

    Tools and images are only recognised in a documented body.
    """
    shown = settings(raw, LOGGED)
    if not is_documented:
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


def _name(tool: MessagesTool) -> str:
    return (tool.type or "") if tool.name is msgspec.UNSET else tool.name


def _images(read: MessagesBody) -> int:
    found = 0
    for message in read.messages:
        if isinstance(message.content, list):
            found += [block.type for block in message.content].count("image")
    return found


_TABLES = validation.Tables(MessagesBody)
_NAMES = validation.lookalikes_of((*MessagesBody.__struct_fields__, "thread"))

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
_THREAD_UNSUPPORTED: Mapping[str, object] = {
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
    members = validation.read_members(body, _NAMES)
    _refuse_thread(members)
    read, fault = _TABLES.read(members)
    is_documented = fault is None
    if is_documented:
        fault = _fault(read)
    return MessagesRequest(
        members,
        validation.check_model(read.model),
        read.stream is True,
        len(members.raw["messages"]),
        read.max_tokens,
        _builtin_tools(read.tools) if read.tools else (),
        parameters(members.raw, read, is_documented=is_documented),
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


def options_of(upstream_model: str, channel: ChannelSpec, model: ModelSpec) -> dict[str, object]:
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
    read the details, and then send the whole history (reference 2.2).
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


def _fault_of_choice(choice: MessagesToolChoice) -> InvalidRequest | None:
    if choice.type != "tool" or choice.name:
        return None
    return InvalidRequest(
        "tool_choice.name is missing: expected the name of a tool.", "tool_choice.name"
    )


def _fault_of_sources(messages: Iterable[InputMessage]) -> InvalidRequest | None:
    for position, message in enumerate(messages):
        if isinstance(message.content, str):
            continue
        for index, block in enumerate(message.content):
            if isinstance(block.source, str) and block.type != "search_result":
                param = f"messages[{position}].content[{index}].source"
                words = _TABLES.allowed["messages[].content[].source"]
                found = described(block.source)
                return InvalidRequest(f"{param}: expected {words}, found {found}.", param)
    return None


def _fault_of_tools(tools: Iterable[MessagesTool]) -> InvalidRequest | None:
    for index, tool in enumerate(tools):
        if _kind(tool) == "custom":
            for name, value in (("name", tool.name), ("input_schema", tool.input_schema)):
                if value is msgspec.UNSET:
                    param = f"tools[{index}].{name}"
                    words = _TABLES.allowed[f"tools[].{name}"]
                    return InvalidRequest(f"{param} is missing: expected {words}.", param)
    return None


def _kind(tool: MessagesTool) -> str:
    """Return a tool's type without its date."""
    return "custom" if tool.type is None else _DATE.sub("", tool.type)


def _builtin_tools(tools: Iterable[MessagesTool]) -> tuple[str, ...]:
    kinds = dict.fromkeys(map(_kind, tools))
    return tuple(kind for kind in kinds if kind not in _RUN_BY_CLIENT)

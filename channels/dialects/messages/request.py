"""Read a messages request, and make of it the body an upstream is sent.

The client's bytes are kept: only the model's name is edited in, as this protocol demands that the
client names its token maximum. The members' types are in `schema.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.messages.parameters import parameters
from channels.dialects.messages.schema import (
    ALLOWED,
    LenientBody,
    LenientTool,
    Message,
    MessagesBody,
    Tool,
    ToolChoice,
)
from channels.dialects.type_errors import described
from channels.dialects.validate import Tables, check_model, lookalikes_of, read_members
from channels.errors import InvalidRequest
from channels.json.members import NOTHING, JsonObject

_TABLES = Tables(MessagesBody, LenientBody, ALLOWED)
_NAMES = lookalikes_of(MessagesBody.__struct_fields__)

# A provider's tools have the date of their version in their type: web_search_20250305.
_DATE = re.compile(r"_\d{8}\Z")
# The client runs these itself; the provider only taught its models to use them.
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
# The words that client libraries of this protocol look for.
_THREAD_UNSUPPORTED: Mapping[str, Any] = {
    "error_code": "thread_unsupported_request",
    "unsupported": [],
}


class MessagesRequest(Struct, frozen=True):
    """A checked request, and what the gateway needs to know of it.

    `content_bytes` is the length of `messages` as sent; `builtin_tools` are the tools that the
    upstream runs, each once, by their type without its date;
    `parameters` is what the call log shows; `fault` is what a translation refuses, and an upstream
    of this protocol judges.
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
    """Check a request body. Raises InvalidRequest naming the member at fault."""
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


def upstream_body(request: MessagesRequest, *, upstream_model: str) -> bytes:
    """The client's body as one channel wants it; the same bytes when nothing has to change."""
    if request.model == upstream_model:
        return request.object.body
    return request.object.edited(replace={"model": msgspec.json.encode(upstream_model)}, add={})


def without_body(request: MessagesRequest) -> MessagesRequest:
    """The request with nothing in it that grows with its body."""
    return replace(request, object=NOTHING)


def _refuse_thread(members: JsonObject) -> None:
    """Refuse to go on with, or to begin, a conversation that the upstream would keep.

    The upstream's account is shared, and the next call may go to another channel. Client libraries
    read the details, and send the whole history from then on (contract §7: Threads).
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
    """What the types do not tell: a choice of no tool, a source that is text, half a tool."""
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
    """A tool's type without its date."""
    return "custom" if tool.type is None else _DATE.sub("", tool.type)


def _builtin_tools(tools: Iterable[Tool | LenientTool]) -> tuple[str, ...]:
    kinds = dict.fromkeys(map(_kind, tools))
    return tuple(kind for kind in kinds if kind not in _RUN_BY_CLIENT)

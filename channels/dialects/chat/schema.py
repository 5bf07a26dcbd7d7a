"""The members of a chat-completions request, as types and as words (spec: Chat-completions).

`ChatBody` has the documented types, `LenientBody` those that the gateway itself must read;
`ALLOWED` says the same to the client. Members that are not here are forwarded unread. What follows
from them is `request.py`'s part.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects.validate import MODEL_CHARACTERS_MAX

# The type of a tool is repeated in responses, too.
TOOL_TYPE_CHARACTERS_MAX = 64
# The largest integer that every JSON reader agrees on.
INTEGER_MAX = 2**53 - 1

_Count = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]


class Part(Struct, gc=False):
    """One part of a content array: text, image, audio, file."""

    type: str | UnsetType = UNSET


class CalledFunction(Struct, gc=False):
    """The function of a tool call."""

    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET


class ToolCall(Struct, gc=False):
    """A call the model made in an earlier turn."""

    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    function: CalledFunction | UnsetType = UNSET


Content = str | list[Part] | None


class _ContentMessage(Struct, tag_field="role", gc=False):
    content: Content


class System(_ContentMessage, tag="system", gc=False):
    """Instructions."""


class Developer(_ContentMessage, tag="developer", gc=False):
    """Instructions under their newer name."""


class User(_ContentMessage, tag="user", gc=False):
    """The user's turn."""


class Tool(_ContentMessage, tag="tool", gc=False):
    """What a tool gave back."""

    tool_call_id: str | UnsetType = UNSET


class Function(_ContentMessage, tag="function", gc=False):
    """What a function gave back, before there were tools."""


class Assistant(Struct, tag_field="role", tag="assistant", gc=False):
    """The model's turn; its content may be missing where it called tools."""

    content: Content | UnsetType = UNSET
    tool_calls: list[ToolCall] | UnsetType | None = UNSET


class ToolFunction(Struct, gc=False):
    """A function the model may call."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | UnsetType | None = UNSET


class ToolSpec(Struct, gc=False):
    """A function tool, or a built-in one such as web_search."""

    type: Annotated[str, Meta(min_length=1, max_length=TOOL_TYPE_CHARACTERS_MAX)]
    function: ToolFunction | UnsetType = UNSET


class ToolChoice(Struct, gc=False):
    """A selector of one function."""

    type: str | UnsetType = UNSET


class StreamOptions(Struct, gc=False):
    """What a stream carries besides the response."""

    include_usage: bool | None = None


class ResponseFormat(Struct, gc=False):
    """The form the response is forced into."""

    type: str


class ChatBody(Struct, gc=False):
    """Every member the gateway reads."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    messages: Annotated[
        list[System | Developer | User | Assistant | Tool | Function], Meta(min_length=1)
    ]
    stream: bool | None = None
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: str | ToolChoice | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    n: _Count | None = None


class Object(Struct, gc=False):
    """Any object; what is in it is the upstream's business."""


class _LenientMessage(Struct, tag_field="role", gc=False):
    content: str | list[Raw] | None


class LenientSystem(_LenientMessage, tag="system", gc=False):
    """Instructions, whatever they are made of."""


class LenientDeveloper(_LenientMessage, tag="developer", gc=False):
    """Instructions under their newer name."""


class LenientUser(_LenientMessage, tag="user", gc=False):
    """The user's turn."""


class LenientTool(_LenientMessage, tag="tool", gc=False):
    """What a tool gave back."""


class LenientFunction(_LenientMessage, tag="function", gc=False):
    """What a function gave back."""


class LenientAssistant(Struct, tag_field="role", tag="assistant", gc=False):
    """The model's turn."""

    content: str | list[Raw] | UnsetType | None = UNSET


class LenientToolSpec(Struct, gc=False):
    """A tool, of which only the type matters; some upstreams take functions without one."""

    type: Annotated[str, Meta(min_length=1, max_length=TOOL_TYPE_CHARACTERS_MAX)] | None = None


class LenientBody(Struct, gc=False):
    """The members that the gateway must read, whatever the upstream says to the rest."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    messages: Annotated[
        list[
            LenientSystem
            | LenientDeveloper
            | LenientUser
            | LenientAssistant
            | LenientTool
            | LenientFunction
        ],
        Meta(min_length=1),
    ]
    stream: bool | None = None
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    tools: list[LenientToolSpec] | None = None
    tool_choice: str | Object | None = None
    stream_options: StreamOptions | None = None
    response_format: Object | None = None
    n: _Count | None = None


class AnyModelBody(ChatBody, gc=False, kw_only=True):
    """`ChatBody` of a request whose model is not the client's to name."""

    model: Raw | UnsetType = UNSET  # type: ignore[assignment]  # whatever stands there is not read


class LenientAnyModelBody(LenientBody, gc=False, kw_only=True):
    """`LenientBody` of such a request."""

    model: Raw | UnsetType = UNSET  # type: ignore[assignment]


ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_COUNT = f"an integer from 1 to {INTEGER_MAX}"

# What each member may be, in words; `[]` stands for any index.
ALLOWED = {
    "model": f"a string of 1 to {MODEL_CHARACTERS_MAX} characters",
    "messages": "a non-empty array of messages",
    "messages[]": "an object with role and content",
    "messages[].role": "one of " + ", ".join(ROLES),
    "messages[].content": "a string, an array of parts or null",
    "messages[].content[]": "an object with type",
    "messages[].content[].type": "a string",
    "messages[].tool_call_id": "a string",
    "messages[].tool_calls": "an array of tool calls",
    "messages[].tool_calls[]": "an object with id, type and function",
    "messages[].tool_calls[].id": "a string",
    "messages[].tool_calls[].type": "a string",
    "messages[].tool_calls[].function": "an object with name and arguments",
    "messages[].tool_calls[].function.name": "a string",
    "messages[].tool_calls[].function.arguments": "a string that holds JSON",
    "stream": "a boolean",
    "max_tokens": _COUNT,
    "max_completion_tokens": _COUNT,
    "temperature": "a number from 0 to 2",
    "tools": "an array of tools",
    "tools[]": "an object with type",
    "tools[].type": f"a string of 1 to {TOOL_TYPE_CHARACTERS_MAX} characters such as web_search",
    "tools[].function": "an object with name",
    "tools[].function.name": "a non-empty string",
    "tools[].function.description": "a string",
    "tool_choice": "a string or an object",
    "tool_choice.type": "a string",
    "stream_options": "an object",
    "stream_options.include_usage": "a boolean",
    "response_format": "an object with type",
    "response_format.type": "a string such as json_object",
    "n": _COUNT,
}

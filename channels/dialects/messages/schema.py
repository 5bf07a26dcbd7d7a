"""The members of a messages request, as types and as words (spec: Chat, messages protocol).

`MessagesBody` has the documented types, `LenientBody` those that the gateway itself must read;
`ALLOWED` says the same to the client. Members that are not here are forwarded unread. What follows
from them is `request.py`'s part.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects.validate import MODEL_CHARACTERS_MAX

# The type of a tool is repeated in responses, too.
TOOL_TYPE_CHARACTERS_MAX = 64
# The largest integer that every JSON reader agrees on.
INTEGER_MAX = 2**53 - 1

_Count = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]


class Object(Struct, gc=False):
    """Any object; what is in it is the upstream's business."""


class Block(Struct, gc=False):
    """One block of content: text, image, document, thinking, a tool's call or result."""

    type: str
    text: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    input: Object | UnsetType = UNSET
    tool_use_id: str | UnsetType = UNSET
    source: Object | str | UnsetType = UNSET  # text only in a search result: where it was found


class Message(Struct, gc=False):
    """One turn. Instructions in the middle of a conversation have a role of their own."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Tool(Struct, gc=False):
    """A tool of the client's, or with another type than `custom` one the provider defines."""

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
    """Whether and how long the model thinks."""

    type: str
    budget_tokens: int | UnsetType | None = UNSET


class MessagesBody(Struct, gc=False):
    """Every member the gateway reads. `Any` stands where only presence matters."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    max_tokens: _Count
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
    thread: Any = None


class LenientMessage(Struct, gc=False):
    """One turn, whatever it is made of."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Raw]


class LenientTool(Struct, gc=False):
    """A tool, of which only the type matters."""

    type: Annotated[str, Meta(min_length=1, max_length=TOOL_TYPE_CHARACTERS_MAX)] | None = None


class LenientBody(Struct, gc=False):
    """The members that the gateway must read, whatever the upstream says to the rest."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    max_tokens: _Count
    messages: Annotated[list[LenientMessage], Meta(min_length=1)]
    system: str | list[Raw] | None = None
    stream: bool | None = None
    tools: list[LenientTool] | None = None
    tool_choice: Object | None = None
    temperature: float | None = None


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

# What each member may be, in words; `[]` stands for any index.
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
}

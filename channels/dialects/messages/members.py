"""The members of a messages request, as types, in words and by name.

(Spec: Chat, messages protocol.) `MessagesBody` has the documented types, `LenientMessagesBody`
those that the gateway itself needs; `ALLOWED` has the same in words, for error messages. Other
members are forwarded unread. `ORIGIN` has the names by which a translation reports what it
dropped.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects import validation
from channels.families import MESSAGES
from channels.translation.model import ClientProtocol


class Block(Struct, gc=False):
    """One block of content: text, image, document, thinking, a tool's call or result."""

    type: str
    text: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    input: validation.AnyObject | UnsetType = UNSET
    tool_use_id: str | UnsetType = UNSET
    source: validation.AnyObject | str | UnsetType = (
        UNSET  # a string only in a search result: its origin
    )


class InputMessage(Struct, gc=False):
    """One turn. Instructions within a conversation have their own role."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class MessagesTool(Struct, gc=False):
    """A tool of the client's, or, with a type other than `custom`, one defined by the provider."""

    type: (
        Annotated[str, Meta(min_length=1, max_length=validation.TOOL_TYPE_CHARACTERS_MAX)] | None
    ) = None
    name: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    input_schema: validation.AnyObject | UnsetType = UNSET


class MessagesToolChoice(Struct, gc=False):
    """Whether tools must be used, and which."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | UnsetType = UNSET
    disable_parallel_tool_use: bool | UnsetType | None = UNSET


class ThinkingOptions(Struct, gc=False):
    """Whether and how much the model thinks."""

    type: str
    budget_tokens: int | UnsetType | None = UNSET


class MessagesBody(Struct, gc=False):
    """The members that the gateway reads, and their types."""

    model: Annotated[str, Meta(min_length=1, max_length=validation.MODEL_CHARACTERS_MAX)]
    max_tokens: validation.Count
    messages: Annotated[list[InputMessage], Meta(min_length=1)]
    system: str | list[Block] | None = None
    stream: bool | None = None
    tools: list[MessagesTool] | None = None
    tool_choice: MessagesToolChoice | None = None
    thinking: ThinkingOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    metadata: validation.AnyObject | None = None
    inference_geo: str | None = None


class LenientMessage(Struct, gc=False):
    """One turn of any content."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Raw]


class LenientMessagesTool(Struct, gc=False):
    """A tool, of which only the type is needed."""

    type: (
        Annotated[str, Meta(min_length=1, max_length=validation.TOOL_TYPE_CHARACTERS_MAX)] | None
    ) = None


class LenientMessagesBody(Struct, gc=False):
    """The members that the gateway needs, whether or not the upstream accepts the rest."""

    model: Annotated[str, Meta(min_length=1, max_length=validation.MODEL_CHARACTERS_MAX)]
    max_tokens: validation.Count
    messages: Annotated[list[LenientMessage], Meta(min_length=1)]
    system: str | list[Raw] | None = None
    stream: bool | None = None
    tools: list[LenientMessagesTool] | None = None
    tool_choice: validation.AnyObject | None = None
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
    "model": f"a string of 1 to {validation.MODEL_CHARACTERS_MAX} characters",
    "max_tokens": f"an integer from 1 to {validation.INTEGER_MAX}",
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
    "tools[].type": (
        f"a string of 1 to {validation.TOOL_TYPE_CHARACTERS_MAX} characters such as custom"
    ),
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


# The names, dotted and without indices, of the fields of `channels/translation/model.py`. A field
# without one cannot be in a messages request.
_NAMES = {
    "parallel_tools": "tool_choice.disable_parallel_tool_use",
    "stop": "stop_sequences",
    "format": "output_config.format",
    "format.is_strict": "output_config.format",
    "format.schema": "output_config.format.schema",
    "reasoning.effort": "output_config.effort",
    "reasoning.budget_tokens": "thinking.budget_tokens",
    "reasoning.is_enabled": "thinking",
    "reasoning.shows_thoughts": "thinking.display",
    "user": "metadata.user_id",
    "tools.name": "tools.name",
    "tools.description": "tools.description",
    "tools.parameters": "tools.input_schema",
    "tools.is_strict": "tools.strict",
    "turn.role": "messages.role",
    "system": "system",
    "thinking": "messages.thinking",
    "call.arguments": "messages.tool_use.input",
    "image": "messages.image",
    "document": "messages.document",
    "media.name": "messages.document.title",
    "is_error": "messages.tool_result.is_error",
}

# Values equivalent to leaving the member out.
_NEUTRAL = {
    "service_tier": "auto",
    "speed": "standard",
    "inference_geo": "global",
    "mcp_servers": [],
    "tools.type": "custom",
    "tools.defer_loading": False,
    "tools.allowed_callers": ["direct"],
    "tools.eager_input_streaming": False,
    "tools.input_examples": [],
    "messages.citations": [],
    "messages.caller": {"type": "direct"},
}

ORIGIN = ClientProtocol(
    protocol=MESSAGES.protocol,
    names=_NAMES,
    neutral=_NEUTRAL,
    system="system.",
    shows_thoughts=True,
)

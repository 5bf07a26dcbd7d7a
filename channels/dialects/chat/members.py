"""The members of a chat-completions request, as types, in words and by name.

(Spec: Chat-completions.) `ChatBody` has the documented types, `LenientChatBody` those that the
gateway itself needs; `ALLOWED` has the same in words, for error messages. Other members are
forwarded unread. `ORIGIN` has the names by which a translation reports what it dropped.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects import validation
from channels.families import CHAT
from channels.translation.model import ClientProtocol


class MessagePart(Struct, gc=False):
    """One part of a content array: text, image, audio, file."""

    type: str | UnsetType = UNSET


class CalledFunction(Struct, gc=False):
    """The function of a tool call."""

    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET


class MessageToolCall(Struct, gc=False):
    """A call the model made in an earlier turn."""

    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    function: CalledFunction | UnsetType = UNSET


Content = str | list[MessagePart] | None


class _ContentMessage(Struct, tag_field="role", gc=False):
    content: Content


class SystemMessage(_ContentMessage, tag="system", gc=False):
    """Instructions."""


class DeveloperMessage(_ContentMessage, tag="developer", gc=False):
    """Instructions under their newer name."""


class UserMessage(_ContentMessage, tag="user", gc=False):
    """The user's turn."""


class ToolMessage(_ContentMessage, tag="tool", gc=False):
    """The result of a tool."""

    tool_call_id: str | UnsetType = UNSET


class FunctionMessage(_ContentMessage, tag="function", gc=False):
    """The result of a function, before there were tools."""


class AssistantMessage(Struct, tag_field="role", tag="assistant", gc=False):
    """The model's turn; the content may be missing if it called tools."""

    content: Content | UnsetType = UNSET
    tool_calls: list[MessageToolCall] | UnsetType | None = UNSET


class ToolFunction(Struct, gc=False):
    """A function the model may call."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | UnsetType | None = UNSET


class ToolSpec(Struct, gc=False):
    """A function tool, or a built-in one such as web_search."""

    type: Annotated[str, Meta(min_length=1, max_length=validation.TOOL_TYPE_CHARACTERS_MAX)]
    function: ToolFunction | UnsetType = UNSET


class FunctionChoice(Struct, gc=False):
    """A selector of one function."""

    type: str | UnsetType = UNSET


class StreamOptions(Struct, gc=False):
    """Additions to a stream besides the response."""

    include_usage: bool | None = None


class ResponseFormat(Struct, gc=False):
    """The required form of the response."""

    type: str


class ChatBody(Struct, gc=False):
    """Every member that the gateway reads."""

    model: Annotated[str, Meta(min_length=1, max_length=validation.MODEL_CHARACTERS_MAX)]
    messages: Annotated[
        list[
            SystemMessage
            | DeveloperMessage
            | UserMessage
            | AssistantMessage
            | ToolMessage
            | FunctionMessage
        ],
        Meta(min_length=1),
    ]
    stream: bool | None = None
    max_tokens: validation.Count | None = None
    max_completion_tokens: validation.Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: str | FunctionChoice | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    n: validation.Count | None = None


class _LenientMessage(Struct, tag_field="role", gc=False):
    content: str | list[Raw] | None


class LenientSystem(_LenientMessage, tag="system", gc=False):
    """Instructions of any content."""


class LenientDeveloper(_LenientMessage, tag="developer", gc=False):
    """Instructions under their newer name."""


class LenientUser(_LenientMessage, tag="user", gc=False):
    """The user's turn."""


class LenientToolMessage(_LenientMessage, tag="tool", gc=False):
    """The result of a tool."""


class LenientFunction(_LenientMessage, tag="function", gc=False):
    """The result of a function."""


class LenientAssistant(Struct, tag_field="role", tag="assistant", gc=False):
    """The model's turn."""

    content: str | list[Raw] | UnsetType | None = UNSET


class LenientToolSpec(Struct, gc=False):
    """A tool, of which only the type is needed; some upstreams accept functions without one."""

    type: (
        Annotated[str, Meta(min_length=1, max_length=validation.TOOL_TYPE_CHARACTERS_MAX)] | None
    ) = None


class LenientChatBody(Struct, gc=False):
    """The members that the gateway needs, whether or not the upstream accepts the rest."""

    model: Annotated[str, Meta(min_length=1, max_length=validation.MODEL_CHARACTERS_MAX)]
    messages: Annotated[
        list[
            LenientSystem
            | LenientDeveloper
            | LenientUser
            | LenientAssistant
            | LenientToolMessage
            | LenientFunction
        ],
        Meta(min_length=1),
    ]
    stream: bool | None = None
    max_tokens: validation.Count | None = None
    max_completion_tokens: validation.Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    tools: list[LenientToolSpec] | None = None
    tool_choice: str | validation.AnyObject | None = None
    stream_options: StreamOptions | None = None
    response_format: validation.AnyObject | None = None
    n: validation.Count | None = None


class AnyModelBody(ChatBody, gc=False, kw_only=True):
    """`ChatBody` of a request whose client does not choose the model."""

    model: Raw | UnsetType = UNSET  # type: ignore[assignment]  # not read


class LenientAnyModelBody(LenientChatBody, gc=False, kw_only=True):
    """`LenientBody` of a request whose client does not choose the model."""

    model: Raw | UnsetType = UNSET  # type: ignore[assignment]


ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_COUNT = f"an integer from 1 to {validation.INTEGER_MAX}"

# The allowed values of each member, in words; `[]` stands for any index.
ALLOWED = {
    "model": f"a string of 1 to {validation.MODEL_CHARACTERS_MAX} characters",
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
    "tools[].type": (
        f"a string of 1 to {validation.TOOL_TYPE_CHARACTERS_MAX} characters such as web_search"
    ),
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


# The names, dotted and without indices, of the fields of `channels/translation/model.py`. A field
# without one cannot be in a chat-completions request.
_NAMES = {
    "parallel_tools": "parallel_tool_calls",
    "stop": "stop",
    "count": "n",
    "format": "response_format",
    "format.name": "response_format.json_schema.name",
    "format.description": "response_format.json_schema.description",
    "format.schema": "response_format.json_schema.schema",
    "format.is_strict": "response_format.json_schema.strict",
    "reasoning.effort": "reasoning_effort",
    "reasoning.budget_tokens": "reasoning_effort",
    "reasoning.is_enabled": "reasoning_effort",
    "reasoning.shows_thoughts": "reasoning_effort",
    "tools.name": "tools.function.name",
    "tools.description": "tools.function.description",
    "tools.parameters": "tools.function.parameters",
    "tools.is_strict": "tools.function.strict",
    "tool_choice.allowed": "tool_choice.allowed_tools",
    "turn.role": "messages.role",
    "turn.name": "messages.name",
    "system": "messages",
    "thinking": "messages.reasoning_content",
    "call.arguments": "messages.tool_calls.function.arguments",
    "call.signature": "messages.tool_calls.extra_content",
    "image": "messages.image_url",
    "document": "messages.file",
    "audio": "messages.input_audio",
    "video": "messages.video_url",
    "media.detail": "messages.image_url.detail",
    "media.name": "messages.file.filename",
}

# Values equivalent to leaving the member out.
_NEUTRAL = {
    "store": False,
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {},
    "metadata": {},
    "modalities": ["text"],
    "verbosity": "medium",
    "service_tier": "auto",
    "stream_options.include_obfuscation": False,
}

# The provider of these members: another of its protocols shares some of their names.
PROVIDER = "openai"

ORIGIN = ClientProtocol(
    protocol=CHAT.protocol,
    names=_NAMES,
    neutral=_NEUTRAL,
    modalities="modalities",
    provider=PROVIDER,
)

"""The members of a chat-completions request, each declared once (`channels/dialects/member.py`).

`ChatBody` has the members that are checked, `TranslatedChat` those that a
translation reads beside them; others are forwarded unread. `ORIGIN` has the names by which a
translation reports what it dropped.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects import common_members as common
from channels.dialects import validation
from channels.dialects.member import NOT_NEEDED, member
from channels.dialects.same_fields import logged_of, names_of
from channels.families import CHAT
from channels.translation.model import ClientProtocol


class MessagePart(Struct, gc=False):
    """One part of a content array: text, image, audio, file."""

    type: str | UnsetType = UNSET


class CalledFunction(Struct, gc=False):
    """The function of a tool call."""

    name: str | UnsetType = UNSET
    arguments: Annotated[str | UnsetType, member(words="a string that holds JSON")] = UNSET


class MessageToolCall(Struct, gc=False):
    """A call the model made in an earlier turn."""

    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    function: Annotated[
        CalledFunction | UnsetType, member(words="an object with name and arguments")
    ] = UNSET


Content = str | list[MessagePart] | None
_LENIENT_CONTENT = str | list[Raw] | None
_CONTENT = member(of="parts", each="an object with type", lenient=_LENIENT_CONTENT)


class _ContentMessage(Struct, tag_field="role", gc=False):
    content: Annotated[Content, _CONTENT]


class SystemMessage(_ContentMessage, tag="system", gc=False):
    """Instructions."""


class DeveloperMessage(_ContentMessage, tag="developer", gc=False):
    """Instructions under their newer name."""


class UserMessage(_ContentMessage, tag="user", gc=False):
    """The user's turn."""


class ToolMessage(_ContentMessage, tag="tool", gc=False):
    """The result of a tool."""

    tool_call_id: Annotated[str | UnsetType, NOT_NEEDED] = UNSET


class FunctionMessage(_ContentMessage, tag="function", gc=False):
    """The result of a function, before there were tools."""


class AssistantMessage(Struct, tag_field="role", tag="assistant", gc=False):
    """The model's turn; the content may be missing if it called tools."""

    content: Annotated[
        Content | UnsetType,
        member(of="parts", each="an object with type", lenient=_LENIENT_CONTENT | UnsetType),
    ] = UNSET
    tool_calls: Annotated[
        list[MessageToolCall] | UnsetType | None,
        member(of="tool calls", each="an object with id, type and function"),
        NOT_NEEDED,
    ] = UNSET


Message = (
    SystemMessage
    | DeveloperMessage
    | UserMessage
    | AssistantMessage
    | ToolMessage
    | FunctionMessage
)


class ToolFunction(Struct, gc=False):
    """A function the model may call."""

    name: Annotated[str, Meta(min_length=1), member(field="tools.name")]
    description: Annotated[str | UnsetType | None, member(field="tools.description")] = UNSET


class TranslatedFunction(ToolFunction, gc=False):
    """The same with what only a translation reads."""

    parameters: Annotated[validation.AnyObject | None, member(field="tools.parameters")] = None
    strict: Annotated[bool | None, member(field="tools.is_strict")] = None


class ToolSpec(Struct, gc=False):
    """A function tool, or a built-in one such as web_search. Some upstreams need no type."""

    type: Annotated[
        common.ToolType,
        member(examples=["web_search"], lenient=common.ToolType | None, may_lack=True),
    ]
    function: Annotated[ToolFunction | UnsetType, NOT_NEEDED] = UNSET


class _TranslatedTool(ToolSpec, gc=False):
    function: TranslatedFunction | UnsetType = UNSET


class FunctionChoice(Struct, gc=False):
    """A selector of one function."""

    type: str | UnsetType = UNSET


class _TranslatedChoice(FunctionChoice, gc=False):
    """A selector of one function, or of several that are allowed."""

    allowed_tools: Annotated[
        validation.AnyObject | None, member(spells=("tool_choice.allowed",))
    ] = None


class StreamOptions(Struct, gc=False):
    """Additions to a stream besides the response."""

    include_usage: Annotated[
        bool | None, member("Whether the last event of a stream states the usage.")
    ] = None


class ResponseFormat(Struct, gc=False):
    """The required form of the response."""

    type: Annotated[str, member(examples=["json_object"])]


class SchemaFormat(Struct, gc=False):
    """A schema that the response must fit."""

    name: Annotated[str | None, member(field="format.name")] = None
    description: Annotated[str | None, member(field="format.description")] = None
    schema: Annotated[validation.AnyObject | None, member(field="format.schema")] = None
    strict: Annotated[bool | None, member(field="format.is_strict")] = None


class _TranslatedFormat(ResponseFormat, gc=False):
    json_schema: SchemaFormat | None = None


_RESPONSE_FORMAT = member(
    "The form of the response: text, JSON, or JSON that fits a schema.",
    lenient=validation.AnyObject | None,
    spells=("format",),
    is_logged=True,
)


class ChatBody(Struct, gc=False):
    """The members that are checked."""

    model: common.Model
    messages: Annotated[
        list[Message],
        Meta(min_length=1),
        member("The conversation so far.", of="messages", each="an object with role and content"),
    ]
    stream: common.Stream = None
    max_tokens: common.MaxTokens = None
    max_completion_tokens: Annotated[
        validation.Count | None, member("The newer name of `max_tokens`.", is_logged=True)
    ] = None
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None,
        member("How random the response is.", field="temperature", is_logged=True),
    ] = None
    tools: Annotated[list[ToolSpec] | None, common.TOOLS] = None
    tool_choice: Annotated[str | FunctionChoice | None, common.TOOL_CHOICE] = None
    stream_options: Annotated[
        StreamOptions | None, member("Additions to a stream.", words="an object")
    ] = None
    response_format: Annotated[ResponseFormat | None, _RESPONSE_FORMAT] = None
    n: common.Responses = None


class TranslatedChat(ChatBody, gc=False):
    """Every member that the gateway reads; an upstream of the protocol checks these itself."""

    tools: Annotated[list[_TranslatedTool] | None, common.TOOLS] = None  # type: ignore[assignment]
    tool_choice: Annotated[str | _TranslatedChoice | None, common.TOOL_CHOICE] = None
    response_format: Annotated[_TranslatedFormat | None, _RESPONSE_FORMAT] = None
    top_p: common.TopP = None
    top_k: Annotated[
        int | None, member("The number of likely tokens to choose from.", field="top_k")
    ] = None
    stop: Annotated[
        str | list[str] | None, member("Texts at which the response ends.", is_logged=True)
    ] = None
    seed: common.Seed = None
    frequency_penalty: common.FrequencyPenalty = None
    presence_penalty: common.PresencePenalty = None
    parallel_tool_calls: common.ParallelTools = None
    reasoning_effort: Annotated[
        str | None,
        member(
            "How much the model thinks.",
            examples=["low", "medium", "high"],
            spells=(
                "reasoning.effort",
                "reasoning.budget_tokens",
                "reasoning.is_enabled",
                "reasoning.shows_thoughts",
            ),
            is_logged=True,
        ),
    ] = None
    user: common.User = None


class AnyModelBody(ChatBody, gc=False, kw_only=True):
    """`ChatBody` of a request whose client does not choose the model."""

    model: Raw | UnsetType = UNSET  # type: ignore[assignment]  # not read


# What the call log shows, with members that are only forwarded.
LOGGED = logged_of(TranslatedChat) | {
    "logprobs",
    "top_logprobs",
    "verbosity",
    "service_tier",
    "modalities",
}

# The names of the parts of a conversation, which are no members of one struct.
_PARTS = {
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
    names={**names_of(TranslatedChat), **_PARTS},
    neutral=_NEUTRAL,
    modalities="modalities",
    provider=PROVIDER,
)

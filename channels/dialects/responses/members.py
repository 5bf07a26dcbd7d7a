"""The members of a responses request, each declared once (`channels/dialects/member.py`).

(reference 2.1.) `ResponsesBody` has the members that are checked,
`TranslatedResponses` those that a translation reads beside them; others are forwarded unread.
`ORIGIN` has the names by which a translation reports what it dropped.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects import common_members as common
from channels.dialects import validation
from channels.dialects.chat.members import PROVIDER, SchemaFormat
from channels.dialects.member import NOT_NEEDED, member
from channels.dialects.same_fields import logged_of, names_of
from channels.families import RESPONSES
from channels.translation.model import ClientProtocol


class InputPart(Struct, gc=False):
    """One part of a content array: text, image, file."""

    type: Annotated[str | UnsetType, member(examples=["input_text"])] = UNSET
    text: str | UnsetType = UNSET
    image_url: str | UnsetType | None = UNSET
    detail: str | UnsetType | None = UNSET


class InputItem(Struct, gc=False):
    """A message, or, with another type, an output item of an earlier response, or a tool list."""

    type: Annotated[
        str | UnsetType, member(examples=["message"], lenient=str | UnsetType | None)
    ] = UNSET
    role: Annotated[
        Literal["user", "assistant", "system", "developer"] | UnsetType,
        member(lenient=str | UnsetType | None),
    ] = UNSET
    content: Annotated[
        str | list[InputPart] | UnsetType | None,
        member(of="parts", each="an object with type", lenient=str | list[Raw] | UnsetType | None),
    ] = UNSET
    call_id: Annotated[str | UnsetType | None, NOT_NEEDED] = UNSET
    name: Annotated[str | UnsetType | None, NOT_NEEDED] = UNSET


class ResponsesTool(Struct, gc=False):
    """A function, or a built-in tool such as web_search; `Any` is of two types."""

    type: Annotated[
        common.ToolType,
        member(examples=["web_search"], lenient=common.ToolType | None, may_lack=True),
    ]
    name: Annotated[Annotated[str, Meta(min_length=1)] | UnsetType, NOT_NEEDED] = UNSET
    description: Annotated[str | UnsetType | None, NOT_NEEDED] = UNSET
    parameters: Annotated[
        validation.AnyObject | UnsetType | None,
        member(words="an object that holds a JSON schema"),
        NOT_NEEDED,
    ] = UNSET
    execution: Any = None
    environment: Any = None


class _TranslatedTool(ResponsesTool, gc=False):
    strict: Annotated[bool | None, member(spells=("tools.is_strict",))] = None


class ResponsesToolChoice(Struct, gc=False):
    """A selector of one tool."""

    type: str | UnsetType = UNSET
    name: str | UnsetType | None = UNSET


class _TranslatedChoice(ResponsesToolChoice, gc=False):
    """A selector of one tool, or of several that are allowed."""

    tools: Annotated[list[validation.AnyObject] | None, member(spells=("tool_choice.allowed",))] = (
        None
    )


class ReasoningOptions(Struct, gc=False):
    """The requested amount of thinking, and whether it is shown."""

    effort: Annotated[
        str | UnsetType | None,
        member(
            examples=["low", "medium", "high"],
            spells=("reasoning.effort", "reasoning.budget_tokens", "reasoning.is_enabled"),
        ),
    ] = UNSET
    summary: Annotated[str | UnsetType | None, member(spells=("reasoning.shows_thoughts",))] = UNSET


class _TextOptions(Struct, gc=False):
    format: Annotated[SchemaFormat | None, member(spells=("format",))] = None


class ResponsesBody(Struct, gc=False):
    """The members that are checked. `Any`: only presence matters."""

    model: common.Model
    input: Annotated[
        str | Annotated[list[InputItem], Meta(min_length=1)],
        member(
            "The conversation so far.",
            of="items",
            each="an object with role and content, or with type",
        ),
    ]
    instructions: Annotated[str | None, member("Instructions.")] = None
    stream: common.Stream = None
    max_output_tokens: common.MaxTokens = None
    reasoning: Annotated[
        ReasoningOptions | None,
        member("How much the model thinks.", lenient=validation.AnyObject | None),
    ] = None
    temperature: common.Temperature = None
    top_p: common.TopP = None
    frequency_penalty: common.FrequencyPenalty = None
    presence_penalty: common.PresencePenalty = None
    tools: Annotated[list[ResponsesTool] | None, common.TOOLS] = None
    tool_choice: Annotated[str | ResponsesToolChoice | None, common.TOOL_CHOICE] = None
    parallel_tool_calls: common.ParallelTools = None
    previous_response_id: Annotated[Any, member("Refused: no response is stored.")] = None
    conversation: Annotated[Any, member("Refused: no conversation is stored.")] = None
    background: Annotated[bool | None, member("Refused if true: no response is stored.")] = None


class TranslatedResponses(ResponsesBody, gc=False):
    """Every member that the gateway reads; an upstream of the protocol checks these itself."""

    tools: Annotated[list[_TranslatedTool] | None, common.TOOLS] = None  # type: ignore[assignment]
    tool_choice: Annotated[str | _TranslatedChoice | None, common.TOOL_CHOICE] = None
    text: Annotated[_TextOptions | None, member("The form of the response.")] = None
    user: common.User = None


# What the call log shows, with members that are only forwarded.
LOGGED = logged_of(TranslatedResponses) | {
    "top_logprobs",
    "max_tool_calls",
    "truncation",
    "service_tier",
    "store",
}

# The names of the parts of a conversation, which are no members of one struct.
_PARTS = {
    "turn.role": "input.role",
    "system": "instructions",
    "thinking": "input.reasoning",
    "call.arguments": "input.arguments",
    "call.signature": "input.reasoning",
    "image": "input.content.input_image",
    "document": "input.content.input_file",
    "audio": "input.content.input_audio",
    "media.detail": "input.content.detail",
    "media.name": "input.content.filename",
}

# Values equivalent to leaving the member out.
_NEUTRAL = {
    "store": False,
    "background": False,
    "metadata": {},
    "truncation": "disabled",
    "service_tier": "auto",
    "top_logprobs": 0,
    "text.verbosity": "medium",
    "tools.defer_loading": False,
    "tools.format": {"type": "text"},
    "stream_options.include_obfuscation": False,
    "input.content.annotations": [],
    "input.content.logprobs": [],
}
ORIGIN = ClientProtocol(
    protocol=RESPONSES.protocol,
    names={**names_of(TranslatedResponses), **_PARTS},
    neutral=_NEUTRAL,
    turns="input",
    parts="input.content.",
    provider=PROVIDER,
    has_thoughts_apart=True,
)

"""The members of a messages request, each declared once (`channels/dialects/member.py`).

(reference 2.1.) `MessagesBody` has the members that are checked,
`TranslatedMessages` those that a translation reads beside them; others are forwarded unread.
`ORIGIN` has the names by which a translation reports what it dropped.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects import common_members as common
from channels.dialects import validation
from channels.dialects.member import NOT_NEEDED, member
from channels.dialects.same_fields import logged_of, names_of
from channels.families import MESSAGES
from channels.translation.model import ClientProtocol


class Block(Struct, gc=False):
    """One block of content: text, image, document, thinking, a tool's call or result."""

    type: Annotated[str, member(examples=["text"])]
    text: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    input: validation.AnyObject | UnsetType = UNSET
    tool_use_id: str | UnsetType = UNSET
    # A string only in a search result: its origin.
    source: Annotated[
        validation.AnyObject | str | UnsetType, member(words="an object with type")
    ] = UNSET


class InputMessage(Struct, gc=False):
    """One turn. Instructions within a conversation have their own role."""

    role: Literal["user", "assistant", "system"]
    content: Annotated[str | list[Block], member(of="content blocks", lenient=str | list[Raw])]


class MessagesTool(Struct, gc=False):
    """A tool of the client's, or, with a type other than `custom`, one defined by the provider."""

    type: Annotated[common.ToolType | None, member(examples=["custom"])] = None
    name: Annotated[
        Annotated[str, Meta(min_length=1)] | UnsetType,
        member(field="tools.name"),
        NOT_NEEDED,
    ] = UNSET
    description: Annotated[
        str | UnsetType | None, member(field="tools.description"), NOT_NEEDED
    ] = UNSET
    input_schema: Annotated[
        validation.AnyObject | UnsetType,
        member(
            words="an object that holds a JSON schema",
            field="tools.parameters",
        ),
        NOT_NEEDED,
    ] = UNSET


class TranslatedTool(MessagesTool, gc=False):
    """The same with what only a translation reads."""

    strict: Annotated[bool | None, member(field="tools.is_strict")] = None


class MessagesToolChoice(Struct, gc=False):
    """Whether tools must be used, and which."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | UnsetType = UNSET
    disable_parallel_tool_use: Annotated[
        bool | UnsetType | None, member(spells=("parallel_tools",))
    ] = UNSET


class ThinkingOptions(Struct, gc=False):
    """Whether and how much the model thinks."""

    type: Annotated[str, member(examples=["enabled"])]
    budget_tokens: Annotated[
        int | UnsetType | None, member(spells=("reasoning.budget_tokens",))
    ] = UNSET


class _TranslatedThinking(ThinkingOptions, gc=False):
    """The same, and whether thoughts are shown."""

    display: Annotated[str | None, member(spells=("reasoning.shows_thoughts",))] = None


class _OutputFormat(Struct, gc=False):
    schema: Annotated[validation.AnyObject | None, member(spells=("format.schema",))] = None


class _OutputConfig(Struct, gc=False):
    effort: Annotated[str | None, member(spells=("reasoning.effort",))] = None
    format: Annotated[_OutputFormat | None, member(spells=("format", "format.is_strict"))] = None


class _Metadata(Struct, gc=False):
    user_id: common.User = None


_TOOLS = member(
    "Tools of the client's, and the provider's.",
    of="tools",
    each="an object with name and input_schema",
)
_THINKING = member(
    "Whether and how much the model thinks.", spells=("reasoning.is_enabled",), is_logged=True
)
_METADATA = member("What the client says of the request, such as its user.")


class MessagesBody(Struct, gc=False):
    """The members that are checked."""

    model: common.Model
    max_tokens: Annotated[validation.Count, common.MAX_TOKENS]
    messages: Annotated[
        list[InputMessage],
        Meta(min_length=1),
        member("The conversation so far.", of="messages"),
    ]
    system: Annotated[
        str | list[Block] | None,
        member("Instructions.", of="text blocks", lenient=str | list[Raw] | None),
    ] = None
    stream: common.Stream = None
    tools: Annotated[list[MessagesTool] | None, _TOOLS] = None
    tool_choice: Annotated[
        MessagesToolChoice | None,
        member(
            "Whether the model must call a tool, and which.",
            lenient=validation.AnyObject | None,
            is_logged=True,
        ),
    ] = None
    thinking: Annotated[ThinkingOptions | None, _THINKING, NOT_NEEDED] = None
    temperature: common.Temperature = None
    top_p: Annotated[common.TopP, NOT_NEEDED] = None
    top_k: Annotated[common.TopK, NOT_NEEDED] = None
    stop_sequences: Annotated[common.Stop, NOT_NEEDED] = None
    metadata: Annotated[validation.AnyObject | None, _METADATA, NOT_NEEDED] = None
    inference_geo: Annotated[
        str | None,
        member("Where the model runs, which is priced.", examples=["us"], is_logged=True),
    ] = None


class TranslatedMessages(MessagesBody, gc=False):
    """Every member that the gateway reads; an upstream of the protocol checks these itself."""

    tools: Annotated[list[TranslatedTool] | None, _TOOLS] = None  # type: ignore[assignment]
    thinking: Annotated[_TranslatedThinking | None, _THINKING] = None
    metadata: Annotated[_Metadata | None, _METADATA] = None  # type: ignore[assignment]
    output_config: Annotated[
        _OutputConfig | None, member("How much the model thinks; the form of the response.")
    ] = None


# What the call log shows, with members that are only forwarded.
LOGGED = logged_of(TranslatedMessages) | {"service_tier", "speed"}

# The names of the parts of a conversation, which are no members of one struct.
_PARTS = {
    "turn.role": "messages.role",
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
    names={**names_of(TranslatedMessages), **_PARTS},
    neutral=_NEUTRAL,
    system="system.",
    shows_thoughts=True,
)

"""The members of a gemini request, each declared once (`channels/dialects/member.py`).

`GeminiBody` has the members that are checked, `TranslatedGemini`
those that a translation reads beside them; others are forwarded unread. `ORIGIN` has the names by
which a translation reports what it dropped.

Upstreams accept a member's name in two spellings, `generationConfig` and `generation_config`; the
gateway parses both of all members that it uses. The client's own names (in arguments, results,
schemas' properties) are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from channels.dialects import common_members as common
from channels.dialects.member import NOT_NEEDED, member
from channels.dialects.same_fields import logged_of, names_of
from channels.dialects.validation import AnyObject, Count
from channels.families import GEMINI
from channels.translation.model import ClientProtocol


class FunctionCall(Struct, gc=False):
    """A function that the model called in an earlier turn."""

    name: str | UnsetType = UNSET
    args: AnyObject | UnsetType | None = UNSET


class FunctionResult(Struct, gc=False):
    """The result of a function."""

    name: str | UnsetType = UNSET
    response: AnyObject | UnsetType | None = UNSET


class Blob(Struct, rename="camel", gc=False):
    """Inline media."""

    mime_type: str | UnsetType = UNSET
    data: Annotated[str | UnsetType, member(words="a string of base64")] = UNSET


class ContentPart(Struct, rename="camel", gc=False):
    """One part of a turn: text, media, a function's call or result."""

    text: str | UnsetType | None = UNSET
    thought: bool | UnsetType | None = UNSET
    inline_data: Annotated[
        Blob | UnsetType | None, member(words="an object with mimeType and data")
    ] = UNSET
    file_data: AnyObject | UnsetType | None = UNSET
    function_call: Annotated[
        FunctionCall | UnsetType | None, member(words="an object with name and args")
    ] = UNSET
    function_response: Annotated[
        FunctionResult | UnsetType | None, member(words="an object with name and response")
    ] = UNSET


# Upstreams accept one object in place of a documented array.
_PARTS = member(
    words="an array of parts", each="an object such as one with text", lenient=list[Raw] | AnyObject
)


class Content(Struct, gc=False):
    """One turn; the user's without a role. Clients send results under several roles."""

    parts: Annotated[list[ContentPart], _PARTS]
    role: Literal["user", "model", "function", "tool"] | None = None


class Instruction(Struct, gc=False):
    """Instructions; their role is ignored."""

    parts: Annotated[list[ContentPart], _PARTS]


class GenerationConfig(Struct, rename="camel", gc=False):
    """The response's settings. The maximum is parsed in both spellings."""

    max_output_tokens: common.MaxTokens = None
    max_output_tokens_spelled: Annotated[Count | None, member("The other spelling.")] = field(
        name="max_output_tokens", default=None
    )
    temperature: common.Temperature = None
    top_p: Annotated[common.TopP, NOT_NEEDED] = None
    top_k: Annotated[
        float | None,
        member("The number of likely tokens to choose from.", is_logged=True),
        NOT_NEEDED,
    ] = None
    candidate_count: common.Responses = None
    stop_sequences: Annotated[common.Stop, NOT_NEEDED] = None
    response_mime_type: Annotated[
        str | None,
        member("The form of the response.", spells=("format",), is_logged=True),
        NOT_NEEDED,
    ] = None


class ThinkingConfig(Struct, rename="camel", gc=False):
    """How much the model thinks, as a level or a number of tokens."""

    thinking_level: Annotated[str | None, member(spells=("reasoning.effort",))] = None
    thinking_budget: Annotated[int | None, member(spells=("reasoning.budget_tokens",))] = None
    include_thoughts: Annotated[bool | None, member(spells=("reasoning.shows_thoughts",))] = None


class TranslatedConfig(GenerationConfig, rename="camel", gc=False):
    """The same with what only a translation reads."""

    top_k: common.TopK = None
    seed: common.Seed = None
    frequency_penalty: common.FrequencyPenalty = None
    presence_penalty: common.PresencePenalty = None
    response_schema: Annotated[
        AnyObject | None,
        member(
            "The schema of the response.",
            spells=("format.name", "format.description", "format.is_strict"),
        ),
    ] = None
    thinking_config: Annotated[
        ThinkingConfig | None,
        member("How much the model thinks.", spells=("reasoning.is_enabled",)),
    ] = None


class FunctionDeclaration(Struct, gc=False):
    """A function that the model may call."""

    name: Annotated[str, Meta(min_length=1), member(spells=("tools.name",))]
    description: Annotated[str | UnsetType | None, member(spells=("tools.description",))] = UNSET
    parameters: Annotated[
        AnyObject | UnsetType | None,
        member(words="an object that holds a schema", spells=("tools.parameters",)),
    ] = UNSET


class GeminiTool(Struct, gc=False):
    """Functions; or, in another member, a tool that the provider runs."""

    functions_spelled: Annotated[list[FunctionDeclaration] | None, member(of="functions")] = field(
        name="function_declarations", default=None
    )
    functions: Annotated[list[FunctionDeclaration] | None, member(of="functions")] = field(
        name="functionDeclarations", default=None
    )


class FunctionCalling(Struct, rename="camel", gc=False):
    """Whether functions must be called, and which."""

    mode: Annotated[str | UnsetType | None, member(examples=["AUTO"])] = UNSET
    allowed_function_names: Annotated[
        list[str] | UnsetType | None, member(spells=("tool_choice.allowed",))
    ] = UNSET


class ToolConfig(Struct, rename="camel", gc=False):
    """The use of tools."""

    function_calling_config: Annotated[
        FunctionCalling | UnsetType | None,
        member(words="an object with mode", spells=("tool_choice",)),
    ] = UNSET


_INSTRUCTION = member("Instructions.", lenient=AnyObject | None)
_CONFIG = member("The response's settings.")


class GeminiBody(Struct, rename="camel", gc=False):
    """The members that are checked; `model` belongs in the path."""

    contents: Annotated[
        list[Content],
        Meta(min_length=1),
        member(
            "The conversation so far.",
            of="turns",
            each="an object with role and parts",
            lenient=Annotated[list[Content], Meta(min_length=1)] | Content,
        ),
    ]
    model: Annotated[Any, member("The model of the path, if it is repeated.")] = None
    system_instruction: Annotated[Instruction | None, _INSTRUCTION] = None
    system_instruction_spelled: Annotated[Instruction | None, _INSTRUCTION] = field(
        name="system_instruction", default=None
    )
    generation_config_spelled: Annotated[GenerationConfig | None, _CONFIG] = field(
        name="generation_config", default=None
    )
    generation_config: Annotated[GenerationConfig | None, _CONFIG] = None
    tools: Annotated[
        list[GeminiTool] | None,
        member(
            "Functions that the model may call, and the provider's tools.",
            of="tools",
            each="an object with functionDeclarations, or with a tool of the provider",
            lenient=list[AnyObject] | AnyObject | None,
        ),
    ] = None
    tool_config: Annotated[ToolConfig | None, member("The use of tools."), NOT_NEEDED] = None


class TranslatedGemini(GeminiBody, rename="camel", gc=False):
    """Every member that the gateway reads; an upstream of the protocol checks these itself."""

    generation_config: Annotated[TranslatedConfig | None, _CONFIG] = None


# What the call log shows of the settings, with members that are only forwarded.
LOGGED = logged_of(TranslatedConfig) | {
    "max_output_tokens",
    "top_p",
    "top_k",
    "candidate_count",
    "stop_sequences",
    "response_mime_type",
    "responseModalities",
    "mediaResolution",
}


_UNDERSCORE = re.compile(r"(?<=[A-Za-z0-9])_([a-z0-9])")


def camel_keys(value: Mapping[str, object]) -> Mapping[str, object]:
    """Return an object's members in camel case, which overrides the other spelling."""
    if not any("_" in name for name in value):
        return value
    renamed = {_camel(name): payload for name, payload in value.items()}
    return {**renamed, **{name: payload for name, payload in value.items() if name in renamed}}


def _camel(name: str) -> str:
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


# The names of the parts of a conversation, which are no members of one struct.
_OF_PARTS = {
    "turn.role": "contents.role",
    "system": "systemInstruction",
    "thinking": "contents.parts.thought",
    "call.arguments": "contents.parts.functionCall.args",
    "call.signature": "contents.parts.thoughtSignature",
    "image": "contents.parts.inlineData",
    "document": "contents.parts.inlineData",
    "audio": "contents.parts.inlineData",
    "video": "contents.parts.inlineData",
    "media.url": "contents.parts.fileData",
    "media.detail": "contents.parts.mediaResolution",
    "media.name": "contents.parts.inlineData.displayName",
    "is_error": "contents.parts.functionResponse.response.error",
}

# Values with the same meaning as an absent member.
_NEUTRAL = {
    "safetySettings": [],
    "labels": {},
    "generationConfig.responseModalities": ["TEXT"],
    "generationConfig.responseLogprobs": False,
    "generationConfig.enableEnhancedCivicAnswers": False,
    "generationConfig.audioTimestamp": False,
    "generationConfig.mediaResolution": "MEDIA_RESOLUTION_UNSPECIFIED",
    "toolConfig.functionCallingConfig.streamFunctionCallArguments": False,
    "toolConfig.includeServerSideToolInvocations": False,
    "tools.functionDeclarations.behavior": "BLOCKING",
    "contents.parts.functionResponse.willContinue": False,
}

ORIGIN = ClientProtocol(
    protocol=GEMINI.protocol,
    names={**names_of(TranslatedGemini), **_OF_PARTS},
    neutral=_NEUTRAL,
    turns="contents",
    parts="contents.parts.",
    tools="tools.functionDeclarations.",
)

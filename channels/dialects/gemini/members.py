"""The members of a gemini request, as types, in words and by name.

(Spec: Native-content protocol.) `GeminiBody` has the documented types, `LenientGeminiBody` those
that the gateway itself needs; `ALLOWED` describes them to the client. Other members are forwarded
unchecked. `ORIGIN` has the names by which a translation reports what it dropped.

Upstreams accept a member's name in two spellings, `generationConfig` and `generation_config`; the
gateway parses both of all members that it uses. The client's own names (in arguments, results,
schemas' properties) are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from channels.dialects.validation import INTEGER_MAX, AnyObject, Count
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
    data: str | UnsetType = UNSET


class ContentPart(Struct, rename="camel", gc=False):
    """One part of a turn: text, media, a function's call or result."""

    text: str | UnsetType | None = UNSET
    thought: bool | UnsetType | None = UNSET
    inline_data: Blob | UnsetType | None = UNSET
    file_data: AnyObject | UnsetType | None = UNSET
    function_call: FunctionCall | UnsetType | None = UNSET
    function_response: FunctionResult | UnsetType | None = UNSET


class Content(Struct, gc=False):
    """One turn; the user's without a role. Clients send results under several roles."""

    parts: list[ContentPart]
    role: Literal["user", "model", "function", "tool"] | None = None


class Instruction(Struct, gc=False):
    """Instructions; their role is ignored."""

    parts: list[ContentPart]


class GenerationConfig(Struct, rename="camel", gc=False):
    """The response's settings. The maximum is parsed in both spellings."""

    max_output_tokens: Count | None = None
    max_output_tokens_spelled: Count | None = field(name="max_output_tokens", default=None)
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    candidate_count: Count | None = None
    stop_sequences: list[str] | None = None
    response_mime_type: str | None = None


class FunctionDeclaration(Struct, gc=False):
    """A function that the model may call."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | UnsetType | None = UNSET
    parameters: AnyObject | UnsetType | None = UNSET


class GeminiTool(Struct, gc=False):
    """Functions; or, in another member, a tool that the provider runs."""

    functions: list[FunctionDeclaration] | None = field(name="functionDeclarations", default=None)
    functions_spelled: list[FunctionDeclaration] | None = field(
        name="function_declarations", default=None
    )


class FunctionCalling(Struct, rename="camel", gc=False):
    """Whether functions must be called, and which."""

    mode: str | UnsetType | None = UNSET
    allowed_function_names: list[str] | UnsetType | None = UNSET


class ToolConfig(Struct, rename="camel", gc=False):
    """The use of tools."""

    function_calling_config: FunctionCalling | UnsetType | None = UNSET


class GeminiBody(Struct, rename="camel", gc=False):
    """The members that the gateway parses; `model` belongs in the path."""

    contents: Annotated[list[Content], Meta(min_length=1)]
    model: Any = None
    system_instruction: Instruction | None = None
    system_instruction_spelled: Instruction | None = field(name="system_instruction", default=None)
    generation_config: GenerationConfig | None = None
    generation_config_spelled: GenerationConfig | None = field(
        name="generation_config", default=None
    )
    tools: list[GeminiTool] | None = None
    tool_config: ToolConfig | None = None


class LenientContent(Struct, gc=False):
    """One turn with any parts; upstreams accept one part in place of an array."""

    parts: list[Raw] | AnyObject
    role: Literal["user", "model", "function", "tool"] | None = None


class LenientConfig(Struct, rename="camel", gc=False):
    """The settings of the response that the gateway counts or limits."""

    max_output_tokens: Count | None = None
    max_output_tokens_spelled: Count | None = field(name="max_output_tokens", default=None)
    temperature: float | None = None
    candidate_count: Count | None = None


class LenientGeminiBody(Struct, rename="camel", gc=False):
    """The members that the gateway needs, whether or not the upstream accepts the others.

    Upstreams accept one object in place of a documented array.
    """

    contents: Annotated[list[LenientContent], Meta(min_length=1)] | LenientContent
    model: Any = None
    system_instruction: AnyObject | None = None
    system_instruction_spelled: AnyObject | None = field(name="system_instruction", default=None)
    generation_config: LenientConfig | None = None
    generation_config_spelled: LenientConfig | None = field(name="generation_config", default=None)
    tools: list[AnyObject] | AnyObject | None = None


_PARTS = {
    "": "an array of parts",
    "[]": "an object such as one with text",
    "[].text": "a string",
    "[].thought": "a boolean",
    "[].inlineData": "an object with mimeType and data",
    "[].inlineData.mimeType": "a string",
    "[].inlineData.data": "a string of base64",
    "[].fileData": "an object",
    "[].functionCall": "an object with name and args",
    "[].functionCall.name": "a string",
    "[].functionCall.args": "an object",
    "[].functionResponse": "an object with name and response",
    "[].functionResponse.name": "a string",
    "[].functionResponse.response": "an object",
}
_COUNT = f"an integer from 1 to {INTEGER_MAX}"
_CONFIG = {
    "": "an object",
    ".maxOutputTokens": _COUNT,
    ".max_output_tokens": _COUNT,
    ".temperature": "a number",
    ".topP": "a number",
    ".topK": "a number",
    ".candidateCount": _COUNT,
    ".stopSequences": "an array of strings",
    ".stopSequences[]": "a string",
    ".responseMimeType": "a string",
}
_FUNCTIONS = {
    "": "an array of functions",
    "[]": "an object with name",
    "[].name": "a non-empty string",
    "[].description": "a string",
    "[].parameters": "an object that holds a schema",
}


def _below(name: str, members: dict[str, str]) -> dict[str, str]:
    return {f"{name}{member}": words for member, words in members.items()}


# The allowed values of each member as text; `[]` is any index.
ALLOWED = {
    "contents": "a non-empty array of turns",
    "contents[]": "an object with role and parts",
    "contents[].role": "one of user, model, function, tool",
    "contents.role": "one of user, model, function, tool",
    "contents.parts": "an array of parts",
    **_below("contents[].parts", _PARTS),
    "systemInstruction": "an object with parts",
    "system_instruction": "an object with parts",
    **_below("systemInstruction.parts", _PARTS),
    **_below("system_instruction.parts", _PARTS),
    **_below("generationConfig", _CONFIG),
    **_below("generation_config", _CONFIG),
    "tools": "an array of tools",
    "tools[]": "an object with functionDeclarations, or with a tool of the provider",
    **_below("tools[].functionDeclarations", _FUNCTIONS),
    **_below("tools[].function_declarations", _FUNCTIONS),
    "toolConfig": "an object",
    "toolConfig.functionCallingConfig": "an object with mode",
    "toolConfig.functionCallingConfig.mode": "a string such as AUTO",
    "toolConfig.functionCallingConfig.allowedFunctionNames": "an array of strings",
    "toolConfig.functionCallingConfig.allowedFunctionNames[]": "a string",
}


_UNDERSCORE = re.compile(r"(?<=[A-Za-z0-9])_([a-z0-9])")


def camel_keys(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object's members in camel case, which overrides the other spelling."""
    if not any("_" in name for name in value):
        return value
    renamed = {_camel(name): payload for name, payload in value.items()}
    return {**renamed, **{name: payload for name, payload in value.items() if name in renamed}}


def _camel(name: str) -> str:
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


# The names, dotted and without indices, of the fields of `channels/translation/model.py`. A field
# without one cannot have come in this protocol.
_NAMES = {
    "tool_choice": "toolConfig.functionCallingConfig",
    "tool_choice.allowed": "toolConfig.functionCallingConfig.allowedFunctionNames",
    "temperature": "generationConfig.temperature",
    "top_p": "generationConfig.topP",
    "top_k": "generationConfig.topK",
    "stop": "generationConfig.stopSequences",
    "seed": "generationConfig.seed",
    "frequency_penalty": "generationConfig.frequencyPenalty",
    "presence_penalty": "generationConfig.presencePenalty",
    "count": "generationConfig.candidateCount",
    "format": "generationConfig.responseMimeType",
    "format.name": "generationConfig.responseSchema",
    "format.description": "generationConfig.responseSchema",
    "format.is_strict": "generationConfig.responseSchema",
    "reasoning.effort": "generationConfig.thinkingConfig.thinkingLevel",
    "reasoning.budget_tokens": "generationConfig.thinkingConfig.thinkingBudget",
    "reasoning.is_enabled": "generationConfig.thinkingConfig",
    "reasoning.shows_thoughts": "generationConfig.thinkingConfig.includeThoughts",
    "tools.name": "tools.functionDeclarations.name",
    "tools.description": "tools.functionDeclarations.description",
    "tools.parameters": "tools.functionDeclarations.parameters",
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
    names=_NAMES,
    neutral=_NEUTRAL,
    turns="contents",
    parts="contents.parts.",
    tools="tools.functionDeclarations.",
)

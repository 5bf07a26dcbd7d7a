"""The members of a gemini request, as types and as words (spec: Native-content protocol).

`GeminiBody` has the documented types, `LenientBody` those that the gateway itself must read;
`ALLOWED` says the same to the client. Members that are not here are forwarded unread. What follows
from them is `request.py`'s part.

Upstreams of this protocol take a member's name in two spellings, `generationConfig` and
`generation_config`. What we act on is read in both, so that neither goes unseen.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

# The largest integer that every JSON reader agrees on.
INTEGER_MAX = 2**53 - 1

_Count = Annotated[int, Meta(ge=1, le=INTEGER_MAX)]


class Object(Struct, gc=False):
    """Any object; what is in it is the upstream's business."""


class Call(Struct, gc=False):
    """A function the model called in an earlier turn."""

    name: str | UnsetType = UNSET
    args: Object | UnsetType | None = UNSET


class Result(Struct, gc=False):
    """What a function gave back."""

    name: str | UnsetType = UNSET
    response: Object | UnsetType | None = UNSET


class Blob(Struct, rename="camel", gc=False):
    """Inline media."""

    mime_type: str | UnsetType = UNSET
    data: str | UnsetType = UNSET


class Part(Struct, rename="camel", gc=False):
    """One part of a turn: text, media, a function's call or result."""

    text: str | UnsetType | None = UNSET
    thought: bool | UnsetType | None = UNSET
    inline_data: Blob | UnsetType | None = UNSET
    file_data: Object | UnsetType | None = UNSET
    function_call: Call | UnsetType | None = UNSET
    function_response: Result | UnsetType | None = UNSET


class Content(Struct, gc=False):
    """One turn; without a role it is the user's. Results have been given under several."""

    parts: list[Part]
    role: Literal["user", "model", "function", "tool"] | None = None


class Instruction(Struct, gc=False):
    """Instructions; whatever role they name is not looked at."""

    parts: list[Part]


class GenerationConfig(Struct, rename="camel", gc=False):
    """How the response is made. The maximum is read in both spellings."""

    max_output_tokens: _Count | None = None
    max_output_tokens_spelled: _Count | None = field(name="max_output_tokens", default=None)
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    candidate_count: _Count | None = None
    stop_sequences: list[str] | None = None
    response_mime_type: str | None = None


class FunctionDeclaration(Struct, gc=False):
    """A function the model may call."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | UnsetType | None = UNSET
    parameters: Object | UnsetType | None = UNSET


class Tool(Struct, gc=False):
    """Functions; or under another member a tool that the provider runs."""

    functions: list[FunctionDeclaration] | None = field(name="functionDeclarations", default=None)
    functions_spelled: list[FunctionDeclaration] | None = field(
        name="function_declarations", default=None
    )


class FunctionCalling(Struct, rename="camel", gc=False):
    """Whether functions must be called, and which."""

    mode: str | UnsetType | None = UNSET
    allowed_function_names: list[str] | UnsetType | None = UNSET


class ToolConfig(Struct, rename="camel", gc=False):
    """How tools are used."""

    function_calling_config: FunctionCalling | UnsetType | None = UNSET


class GeminiBody(Struct, rename="camel", gc=False):
    """Every member the gateway reads; `model` belongs into the path."""

    contents: Annotated[list[Content], Meta(min_length=1)]
    model: Any = None
    system_instruction: Instruction | None = None
    system_instruction_spelled: Instruction | None = field(name="system_instruction", default=None)
    generation_config: GenerationConfig | None = None
    generation_config_spelled: GenerationConfig | None = field(
        name="generation_config", default=None
    )
    tools: list[Tool] | None = None
    tool_config: ToolConfig | None = None


class LenientContent(Struct, gc=False):
    """One turn, whatever it is made of; upstreams take one part for an array of it."""

    parts: list[Raw] | Object
    role: Literal["user", "model", "function", "tool"] | None = None


class LenientConfig(Struct, rename="camel", gc=False):
    """How the response is made, as far as it is counted or bounded."""

    max_output_tokens: _Count | None = None
    max_output_tokens_spelled: _Count | None = field(name="max_output_tokens", default=None)
    temperature: float | None = None
    candidate_count: _Count | None = None


class LenientBody(Struct, rename="camel", gc=False):
    """The members that the gateway must read, whatever the upstream says to the rest.

    Upstreams of this protocol take one object where an array of it is documented.
    """

    contents: Annotated[list[LenientContent], Meta(min_length=1)] | LenientContent
    model: Any = None
    system_instruction: Object | None = None
    system_instruction_spelled: Object | None = field(name="system_instruction", default=None)
    generation_config: LenientConfig | None = None
    generation_config_spelled: LenientConfig | None = field(name="generation_config", default=None)
    tools: list[Object] | Object | None = None


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


# What each member may be, in words; `[]` stands for any index.
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

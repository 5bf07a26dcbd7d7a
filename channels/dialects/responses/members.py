"""The members of a responses request, as types, in words and by name.

(Spec: Chat, responses protocol.) `ResponsesBody` has the documented types,
`LenientResponsesBody` those that the gateway itself needs; `ALLOWED` has the same in words, for
error messages. Other members are forwarded unread. `ORIGIN` has the names by which a translation
reports what it dropped.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects import validation
from channels.dialects.chat.members import PROVIDER
from channels.families import RESPONSES
from channels.translation.model import ClientProtocol


class InputPart(Struct, gc=False):
    """One part of a content array: text, image, file."""

    type: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    image_url: str | UnsetType | None = UNSET
    detail: str | UnsetType | None = UNSET


class InputItem(Struct, gc=False):
    """A message, or, with another type, an output item of an earlier response, or a tool list."""

    type: str | UnsetType = UNSET
    role: Literal["user", "assistant", "system", "developer"] | UnsetType = UNSET
    content: str | list[InputPart] | UnsetType | None = UNSET
    call_id: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET


class ResponsesTool(Struct, gc=False):
    """A function, or a built-in tool such as web_search."""

    type: Annotated[str, Meta(min_length=1, max_length=validation.TOOL_TYPE_CHARACTERS_MAX)]
    name: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    parameters: validation.AnyObject | UnsetType | None = UNSET
    execution: Any = None
    environment: Any = None


class ResponsesToolChoice(Struct, gc=False):
    """A selector of one tool."""

    type: str | UnsetType = UNSET
    name: str | UnsetType | None = UNSET


class ReasoningOptions(Struct, gc=False):
    """The requested amount of thinking, and whether it is shown."""

    effort: str | UnsetType | None = UNSET
    summary: str | UnsetType | None = UNSET


class ResponsesBody(Struct, gc=False):
    """Every member that the gateway reads. `Any` is used if only presence matters."""

    model: Annotated[str, Meta(min_length=1, max_length=validation.MODEL_CHARACTERS_MAX)]
    input: str | Annotated[list[InputItem], Meta(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: validation.Count | None = None
    reasoning: ReasoningOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: str | ResponsesToolChoice | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: Any = None
    conversation: Any = None
    background: bool | None = None


class LenientItem(Struct, gc=False):
    """An item: its type, and the role and content of a message."""

    type: str | UnsetType | None = UNSET
    role: str | UnsetType | None = UNSET
    content: str | list[Raw] | UnsetType | None = UNSET


class LenientResponsesTool(Struct, gc=False):
    """A tool, of which only the type is needed, and where it runs."""

    type: (
        Annotated[str, Meta(min_length=1, max_length=validation.TOOL_TYPE_CHARACTERS_MAX)] | None
    ) = None
    execution: Any = None
    environment: Any = None


class LenientResponsesBody(Struct, gc=False):
    """The members that the gateway needs, whether or not the upstream accepts the rest."""

    model: Annotated[str, Meta(min_length=1, max_length=validation.MODEL_CHARACTERS_MAX)]
    input: str | Annotated[list[LenientItem], Meta(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: validation.Count | None = None
    reasoning: validation.AnyObject | None = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tools: list[LenientResponsesTool] | None = None
    tool_choice: str | validation.AnyObject | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: Any = None
    conversation: Any = None
    background: bool | None = None


# The allowed values of each member, in words; `[]` stands for any index.
ALLOWED = {
    "model": f"a string of 1 to {validation.MODEL_CHARACTERS_MAX} characters",
    "input": "a string or a non-empty array of items",
    "input[]": "an object with role and content, or with type",
    "input[].type": "a string such as message",
    "input[].role": "one of user, assistant, system, developer",
    "input[].content": "a string or an array of parts",
    "input[].content[]": "an object with type",
    "input[].content[].type": "a string such as input_text",
    "input[].content[].text": "a string",
    "input[].content[].image_url": "a string",
    "input[].content[].detail": "a string",
    "input[].call_id": "a string",
    "input[].name": "a string",
    "instructions": "a string",
    "stream": "a boolean",
    "max_output_tokens": f"an integer from 1 to {validation.INTEGER_MAX}",
    "reasoning": "an object",
    "reasoning.effort": "a string such as low, medium or high",
    "reasoning.summary": "a string",
    "temperature": "a number",
    "top_p": "a number",
    "frequency_penalty": "a number",
    "presence_penalty": "a number",
    "tools": "an array of tools",
    "tools[]": "an object with type",
    "tools[].type": (
        f"a string of 1 to {validation.TOOL_TYPE_CHARACTERS_MAX} characters such as web_search"
    ),
    "tools[].name": "a non-empty string",
    "tools[].description": "a string",
    "tools[].parameters": "an object that holds a JSON schema",
    "tool_choice": "a string or an object",
    "tool_choice.type": "a string",
    "tool_choice.name": "a string",
    "parallel_tool_calls": "a boolean",
    "background": "a boolean",
}


# The names, dotted and without indices, of the fields of `channels/translation/model.py`. A field
# without one cannot be in a responses request.
_NAMES = {
    "parallel_tools": "parallel_tool_calls",
    "format": "text.format",
    "format.name": "text.format.name",
    "format.description": "text.format.description",
    "format.schema": "text.format.schema",
    "format.is_strict": "text.format.strict",
    "reasoning.budget_tokens": "reasoning.effort",
    "reasoning.is_enabled": "reasoning.effort",
    "reasoning.shows_thoughts": "reasoning.summary",
    "tools.is_strict": "tools.strict",
    "tool_choice.allowed": "tool_choice.tools",
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
    names=_NAMES,
    neutral=_NEUTRAL,
    turns="input",
    parts="input.content.",
    provider=PROVIDER,
    has_thoughts_apart=True,
)

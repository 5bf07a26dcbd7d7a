"""The members of a responses request, as types and as words (spec: Chat, responses protocol).

`ResponsesBody` has the documented types, `LenientBody` those that the gateway itself must read;
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


class Part(Struct, gc=False):
    """One part of a content array: text, image, file."""

    type: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    image_url: str | UnsetType | None = UNSET
    detail: str | UnsetType | None = UNSET


class Item(Struct, gc=False):
    """A message, or with another type anything that an earlier answer put out, or a tool."""

    type: str | UnsetType = UNSET
    role: Literal["user", "assistant", "system", "developer"] | UnsetType = UNSET
    content: str | list[Part] | UnsetType | None = UNSET
    call_id: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET


class Tool(Struct, gc=False):
    """A function, or a built-in tool such as web_search."""

    type: Annotated[str, Meta(min_length=1, max_length=TOOL_TYPE_CHARACTERS_MAX)]
    name: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    parameters: Object | UnsetType | None = UNSET


class ToolChoice(Struct, gc=False):
    """A selector of one tool."""

    type: str | UnsetType = UNSET
    name: str | UnsetType | None = UNSET


class Reasoning(Struct, gc=False):
    """How much thinking is asked for, and whether it is told."""

    effort: str | UnsetType | None = UNSET
    summary: str | UnsetType | None = UNSET


class ResponsesBody(Struct, gc=False):
    """Every member the gateway reads. `Any` stands where only presence matters."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    input: str | Annotated[list[Item], Meta(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: _Count | None = None
    reasoning: Reasoning | None = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tools: list[Tool] | None = None
    tool_choice: str | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: Any = None
    conversation: Any = None
    background: bool | None = None


class LenientItem(Struct, gc=False):
    """An item: its type, and whether a message has its role and content."""

    type: str | UnsetType | None = UNSET
    role: str | UnsetType | None = UNSET
    content: str | list[Raw] | UnsetType | None = UNSET


class LenientTool(Struct, gc=False):
    """A tool, of which only the type matters."""

    type: Annotated[str, Meta(min_length=1, max_length=TOOL_TYPE_CHARACTERS_MAX)] | None = None


class LenientBody(Struct, gc=False):
    """The members that the gateway must read, whatever the upstream says to the rest."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    input: str | Annotated[list[LenientItem], Meta(min_length=1)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: _Count | None = None
    reasoning: Object | None = None
    temperature: float | None = None
    top_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tools: list[LenientTool] | None = None
    tool_choice: str | Object | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: Any = None
    conversation: Any = None
    background: bool | None = None


# What each member may be, in words; `[]` stands for any index.
ALLOWED = {
    "model": f"a string of 1 to {MODEL_CHARACTERS_MAX} characters",
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
    "max_output_tokens": f"an integer from 1 to {INTEGER_MAX}",
    "reasoning": "an object",
    "reasoning.effort": "a string such as low, medium or high",
    "reasoning.summary": "a string",
    "temperature": "a number",
    "top_p": "a number",
    "frequency_penalty": "a number",
    "presence_penalty": "a number",
    "tools": "an array of tools",
    "tools[]": "an object with type",
    "tools[].type": f"a string of 1 to {TOOL_TYPE_CHARACTERS_MAX} characters such as web_search",
    "tools[].name": "a non-empty string",
    "tools[].description": "a string",
    "tools[].parameters": "an object that holds a JSON schema",
    "tool_choice": "a string or an object",
    "tool_choice.type": "a string",
    "tool_choice.name": "a string",
    "parallel_tool_calls": "a boolean",
    "background": "a boolean",
}

"""The members that several chat dialects have alike, but for their names."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from channels.dialects import validation
from channels.dialects.member import member

Model = Annotated[
    str,
    Meta(min_length=1, max_length=validation.MODEL_CHARACTERS_MAX),
    member("The model, by its name here."),
]
Stream = Annotated[
    bool | None, member("Whether the response is a stream of events.", is_logged=True)
]
MAX_TOKENS = member(
    "The most tokens that the model may write, thoughts included.",
    field="max_tokens",
    is_logged=True,
)
MaxTokens = Annotated[validation.Count | None, MAX_TOKENS]
Temperature = Annotated[
    float | None, member("How random the response is.", field="temperature", is_logged=True)
]
TopP = Annotated[
    float | None,
    member("The share of likely tokens to choose from.", field="top_p", is_logged=True),
]
TopK = Annotated[
    int | None,
    member("The number of likely tokens to choose from.", field="top_k", is_logged=True),
]
Seed = Annotated[int | None, member("Makes responses repeatable.", field="seed", is_logged=True)]
FrequencyPenalty = Annotated[
    float | None,
    member("Makes frequent tokens rarer.", field="frequency_penalty", is_logged=True),
]
PresencePenalty = Annotated[
    float | None,
    member("Makes tokens rarer that were there.", field="presence_penalty", is_logged=True),
]
Stop = Annotated[
    list[str] | None, member("Texts at which the response ends.", field="stop", is_logged=True)
]
Responses = Annotated[
    validation.Count | None, member("The number of responses.", field="count", is_logged=True)
]
ParallelTools = Annotated[
    bool | None,
    member("Whether there may be several calls at once.", field="parallel_tools", is_logged=True),
]
TOOLS = member("Functions that the model may call, and built-in tools.", of="tools")
TOOL_CHOICE = member(
    "Whether the model must call a tool, and which.",
    lenient=str | validation.AnyObject | None,
    is_logged=True,
)
User = Annotated[str | None, member("The client's own user.", field="user")]

# A provider's tool, or a function, by its kind.
ToolType = Annotated[str, Meta(min_length=1, max_length=validation.TOOL_TYPE_CHARACTERS_MAX)]

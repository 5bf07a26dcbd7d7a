"""What a client was told, in no protocol any more; how each protocol says it is beside this."""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Told:
    """One answer as its client understands it; `finish` is the protocol's own word."""

    text: str = ""
    refusal: str = ""  # where the protocol keeps it apart from the text
    thinking: str = ""
    signatures: list[str] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    finish: str | None = None
    stop_sequence: str | None = None
    usage: tuple[int, int, int] | None = None  # input, output, cached: totals
    reasoning: int = 0  # of the output
    has_end: bool = False  # the protocol's mark of a complete answer
    error: dict[str, Any] | None = None  # an error event


def call(name: str, arguments: str) -> tuple[str, Any]:
    """A call whose arguments came as text, which has to be an object."""
    read = json.loads(arguments)
    assert isinstance(read, dict), arguments
    return name, read


def chat_usage(usage: dict[str, Any], told: Told) -> None:
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    told.usage = (usage["prompt_tokens"], usage["completion_tokens"], cached)
    told.reasoning = usage.get("completion_tokens_details", {}).get("reasoning_tokens", 0)


def messages_usage(usage: dict[str, Any], told: Told) -> None:
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    told.usage = (usage["input_tokens"] + cached + written, usage["output_tokens"], cached)


def responses_usage(usage: dict[str, Any], told: Told) -> None:
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    cached = usage["input_tokens_details"]["cached_tokens"]
    told.usage = (usage["input_tokens"], usage["output_tokens"], cached)
    told.reasoning = usage["output_tokens_details"]["reasoning_tokens"]


def gemini_usage(usage: dict[str, Any], told: Told) -> None:
    told.reasoning = usage.get("thoughtsTokenCount", 0)
    output = usage.get("candidatesTokenCount", 0) + told.reasoning
    assert usage["totalTokenCount"] == usage["promptTokenCount"] + output
    told.usage = (usage["promptTokenCount"], output, usage.get("cachedContentTokenCount", 0))

"""The forms in which providers show a model's thoughts on the chat wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Thoughts:
    """`message(thought, content)`: the members of a whole message; `delta(thought)`: of a delta.

    `thought` is empty where there is none, `content` None where the message has calls alone.
    `text` makes of a piece of text what stands in a delta's content after a thought.
    """

    message: Callable[[str, str | None], dict[str, Any]]
    delta: Callable[[str], dict[str, Any]]
    text: Callable[[str], Any] = str


def in_member(name: str) -> Thoughts:
    """A text in a member of its own."""

    def message(thought: str, content: str | None) -> dict[str, Any]:
        return {"content": content, **({name: thought} if thought else {})}

    return Thoughts(message, lambda thought: {name: thought})


def _with_details(thought: str) -> dict[str, Any]:
    details = {"type": "reasoning.text", "text": thought, "format": "unknown", "index": 0}
    return {"reasoning": thought, "reasoning_details": [details]}


def _thinking_part(thought: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}


def _parts(thought: str, content: str | None) -> dict[str, Any]:
    if not thought:
        return {"content": content}
    texts = [{"type": "text", "text": content}] if content else []
    return {"content": [_thinking_part(thought), *texts]}


def _tagged(thought: str, content: str | None) -> dict[str, Any]:
    return {"content": f"<think>\n{thought}\n</think>\n\n{content or ''}" if thought else content}


# Of DeepSeek, xAI and most others.
REASONING_CONTENT: Final = in_member("reasoning_content")
# Of Groq, Together, vLLM since it renamed its member.
REASONING: Final = in_member("reasoning")
# Of OpenRouter: the text, and an envelope beside it.
REASONING_DETAILS: Final = Thoughts(
    lambda thought, content: {"content": content, **(_with_details(thought) if thought else {})},
    _with_details,
)
# Of Mistral: a part of the content.
CONTENT_PARTS: Final = Thoughts(
    _parts,
    lambda thought: {"content": [_thinking_part(thought)]},
    lambda piece: [{"type": "text", "text": piece}],
)
# Of MiniMax and of servers that do not parse what a model writes.
THINK_TAGS: Final = Thoughts(_tagged, lambda thought: _tagged(thought, None))
# Of OpenAI, whose chat wire shows none.
HIDDEN: Final = Thoughts(lambda _, content: {"content": content}, lambda _: {})

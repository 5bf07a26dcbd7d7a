"""The chat wire with the differences that providers have: a row of traits, and how it is played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from loadtests.simulator.answers import Answer, Call, Tokens
from loadtests.simulator.ask import Ask
from loadtests.simulator.dialects.base import Stream, argument_pieces, encode
from loadtests.simulator.dialects.chat import DONE, ChatDialect
from loadtests.simulator.providers.thoughts import REASONING_CONTENT, Thoughts


def usage_of_openai(tokens: Tokens) -> dict[str, Any]:
    """Usage with the details of OpenAI, which most have taken over."""
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTraits:
    """How one provider's answers look.

    `head` stands in answers and chunks, `choice` in each choice. `opening` is sent before the first
    chunk, as it is (a comment), and `whole_opening` before a whole answer. `every_delta` is in each
    delta, `first_delta` is one of its own (None: there is none). `has_whole_calls`: a tool call
    comes in one chunk, `has_joint_finish`: the finish comes with the last words or calls. `call_id`
    makes a call's id, `call` is further members of one; `has_call_index`: its place is told, too.
    `has_null_finish`: chunks before the last say that there is none. `usage` stands in a last chunk
    of its own (with these choices), in that of the finish, in its choice, in each chunk, or under
    `x_groq`; `is_usage_unasked`: also where no `stream_options` asked for it.
    """

    id_prefix: str = "chatcmpl-"
    head: Mapping[str, Any] = field(default_factory=dict)
    choice: Mapping[str, Any] = field(default_factory=dict)
    opening: bytes = b""
    whole_opening: bytes = b""
    first_delta: Mapping[str, Any] | None = field(
        default_factory=lambda: {"role": "assistant", "content": ""}
    )
    every_delta: Mapping[str, Any] = field(default_factory=dict)
    last_delta: Mapping[str, Any] = field(default_factory=dict)
    message: Mapping[str, Any] = field(default_factory=dict)
    thoughts: Thoughts = REASONING_CONTENT
    has_whole_calls: bool = False
    has_joint_finish: bool = False
    has_call_index: bool = True
    has_null_finish: bool = True
    call_id: Callable[[Call], str] = lambda call: call.id("call_")
    call: Mapping[str, Any] = field(default_factory=lambda: {"type": "function"})
    usage: Callable[[Tokens], dict[str, Any]] = usage_of_openai
    usage_in: Literal["own_chunk", "last_chunk", "choice", "x_groq", "every_chunk"] = "own_chunk"
    is_usage_unasked: bool = False
    own_chunk_choices: tuple[Any, ...] = ()


class ProviderChat(ChatDialect):
    """The chat wire of one provider."""

    def __init__(self, traits: ChatTraits) -> None:
        self.traits = traits

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        traits = self.traits
        content = None if answer.calls and not answer.text else answer.text
        message = {"role": "assistant", **traits.thoughts.message(answer.thinking, content)}
        message |= traits.message
        if answer.calls:
            message["tool_calls"] = [
                self._call(call, number, call.arguments) for number, call in enumerate(answer.calls)
            ]
        whole = self._head(ask, answer, "chat.completion")
        whole["choices"] = [
            {
                "index": index,
                **traits.choice,
                "message": message,
                "finish_reason": self._end(answer),
            }
            for index in range(ask.choices)
        ]
        if answer.usage is not None:
            whole["usage"] = traits.usage(answer.usage)
        return traits.whole_opening + encode(whole)

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        traits = self.traits
        head = self._head(ask, answer, "chat.completion.chunk")
        wants_usage = ask.include_usage or traits.is_usage_unasked
        usage = traits.usage(answer.usage) if answer.usage is not None and wants_usage else None
        frames: list[bytes] = [traits.opening] if traits.opening else []

        def put(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> None:
            in_choice = {"usage": usage} if finish and usage and traits.usage_in == "choice" else {}
            if usage and traits.usage_in == "every_chunk":
                more = {"usage": usage}
            frames.extend(
                _chunk(
                    head,
                    {
                        "index": index,
                        "delta": {**traits.every_delta, **delta},
                        **traits.choice,
                        **({"finish_reason": finish} if finish or traits.has_null_finish else {}),
                        **in_choice,
                    },
                    more,
                )
                for index in range(ask.choices)
            )

        if traits.first_delta is not None:
            put(traits.first_delta)
        if answer.thinking:
            put(traits.thoughts.delta(answer.thinking))
        text = traits.thoughts.text if answer.thinking else str
        deltas: list[Mapping[str, Any]] = [{"content": text(piece)} for piece in answer.deltas]
        texts = len(deltas)
        for number, call in enumerate(answer.calls):
            deltas += ({"tool_calls": [one]} for one in self._call_deltas(call, number))
        last = deltas.pop() if traits.has_joint_finish and deltas else traits.last_delta
        for delta in deltas:
            put(delta)
        text_end = len(frames) - max(0, len(deltas) - texts) * ask.choices
        put(last, self._end(answer), **self._last_members(answer, usage))
        if usage is not None and traits.usage_in == "own_chunk":
            choices = list(traits.own_chunk_choices)
            frames.append(_event({**head, "choices": choices, "usage": usage}))
        if is_finished:
            frames.append(DONE)
        more = _chunk(head, {"index": 0, "delta": {"content": "more "}, "finish_reason": None}, {})
        return Stream(frames=frames, text_end=text_end, more=lambda _: more)

    def _last_members(self, answer: Answer, usage: Mapping[str, Any] | None) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if self.traits.usage_in == "x_groq":
            members["x_groq"] = {"id": f"req_{answer.id[:26]}", "usage": usage}
        if usage is not None and self.traits.usage_in == "last_chunk":
            members["usage"] = usage
        return members

    def _call_deltas(self, call: Call, number: int) -> list[dict[str, Any]]:
        if self.traits.has_whole_calls:
            return [self._call(call, number, call.arguments)]
        rest = [
            {"index": number, "function": {"arguments": piece}}
            for piece in argument_pieces(call.arguments)
        ]
        return [self._call(call, number, ""), *rest]

    def _call(self, call: Call, number: int, arguments: str) -> dict[str, Any]:
        function = {"name": call.name, "arguments": arguments}
        return {
            **({"index": number} if self.traits.has_call_index else {}),
            "id": call.given_id or self.traits.call_id(call),
            **self.traits.call,
            "function": function,
        }

    def _end(self, answer: Answer) -> str:
        return "stop" if answer.is_declined else answer.finish

    def _head(self, ask: Ask, answer: Answer, kind: str) -> dict[str, Any]:
        return {
            "id": f"{self.traits.id_prefix}{answer.id[:24]}",
            "object": kind,
            "created": answer.created,
            "model": ask.model,
            **self.traits.head,
        }


def _chunk(head: dict[str, Any], choice: dict[str, Any], more: Mapping[str, Any]) -> bytes:
    return _event({**head, "choices": [choice], **more})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(value)

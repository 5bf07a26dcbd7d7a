"""The chat-completions wire, with the differences that providers have: a row of traits.

The usage chunk (`choices: []`) goes out only when asked for, where a provider has no other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from loadtests.simulator.ask import (
    Ask,
    Refusal,
    Tool,
    content_of,
    content_text,
    decoder_of,
    effort_tokens,
    given,
    many,
    offer,
    shape,
    size_of,
    tokens_of,
)
from loadtests.simulator.completions import Call, Completion, Tokens
from loadtests.simulator.dialects.base import Dialect, Stream, argument_pieces, decode, encode
from loadtests.simulator.exchange import Exchange

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
MAX_CHOICES: Final = 8


_Function = shape(name=str, parameters=msgspec.Raw)
_Format = shape(type=str, json_schema=shape(schema=msgspec.Raw) | None)
_Request = shape(
    model=str,
    messages=many(shape(role=Role, content=msgspec.Raw)),
    stream=bool | None,
    stream_options=shape(include_usage=bool | None) | None,
    max_tokens=int | None,
    max_completion_tokens=int | None,
    temperature=float | None,
    n=int | None,
    tools=many(shape(type=str, function=_Function | None)) | None,
    tool_choice=str | shape(function=_Function | None) | None,
    parallel_tool_calls=bool | None,
    reasoning_effort=str | None,
    prompt_cache_key=str | None,
    response_format=_Format | None,
    sim=msgspec.Raw,
)
_decoder = decoder_of(_Request)


def _read_last_turn(ask: Ask, messages: list[Any]) -> None:
    if messages[-1].role in ("tool", "function"):
        ask.tool_result = content_text(messages[-1].content)
    for message in reversed(messages):
        if message.role == "user":
            ask.text = content_text(message.content)
            return


def _read_tools(ask: Ask, request: Any) -> None:
    functions = [tool.function for tool in request.tools or () if tool.function is not None]
    choice = request.tool_choice
    offer(
        ask,
        (Tool(name=tool.name, schema=bytes(tool.parameters)) for tool in functions),
        chosen=choice.function.name if getattr(choice, "function", None) else None,
        is_forbidden=choice == "none",
        in_parallel=request.parallel_tool_calls is not False,
    )


DONE: Final = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Thoughts:
    """One form in which a model's thoughts stand on the chat wire.

    `delta(thought)`: the members of a delta, and of a whole message beside its content. `text`
    makes of a piece of text what stands in a delta's content after a thought, `content` of both
    what a whole message has (None where that is the text, which is None beside calls alone).
    """

    delta: Callable[[str], dict[str, Any]]
    text: Callable[[str], Any] = str
    content: Callable[[str, str | None], Any] | None = None

    def message(self, thought: str, text: str | None) -> dict[str, Any]:
        """The members of a whole message; `thought` is empty where there is none."""
        if not thought or self.content is None:
            return {"content": text, **(self.delta(thought) if thought else {})}
        return {"content": self.content(thought, text)}


def _with_details(thought: str) -> dict[str, Any]:
    details = {"type": "reasoning.text", "text": thought, "format": "unknown", "index": 0}
    return {"reasoning": thought, "reasoning_details": [details]}


def _thinking_part(thought: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}


def _text_part(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def _tagged(thought: str, text: str | None = None) -> str:
    return f"<think>\n{thought}\n</think>\n\n{text or ''}"


# What shows no thought apart from the text.
HIDDEN: Final = "hidden"
THINK_TAGS: Final = "think_tags"
_THOUGHTS: Final[Mapping[str, Thoughts]] = {
    # A text in a member of its own.
    "reasoning_content": Thoughts(lambda thought: {"reasoning_content": thought}),
    "reasoning": Thoughts(lambda thought: {"reasoning": thought}),
    # The text, and an envelope beside it.
    "reasoning_details": Thoughts(_with_details),
    # A part of the content.
    "content_parts": Thoughts(
        lambda thought: {"content": [_thinking_part(thought)]},
        _text_part,
        lambda thought, text: [_thinking_part(thought), *(_text_part(text) if text else ())],
    ),
    # Of servers that do not parse what a model writes.
    THINK_TAGS: Thoughts(lambda thought: {"content": _tagged(thought)}, content=_tagged),
    HIDDEN: Thoughts(lambda _: {}),
}


# The details are those of OpenAI, which most have taken over.
OPENAI_USAGE: Final[dict[str, Any]] = {
    "prompt_tokens": "$input",
    "completion_tokens": "$output",
    "total_tokens": "$total",
    "prompt_tokens_details": {"cached_tokens": "$cached"},
    "completion_tokens_details": {"reasoning_tokens": "$reasoning"},
}


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """A JSON value with `$name` at the end of a text replaced by the value of that name.

    A member whose name ends in `?` is left out where all that is filled in there is zero.
    """
    if isinstance(template, str):
        before, mark, name = template.partition("$")
        return before + values[name] if before and mark else values[name] if mark else template
    if isinstance(template, list):
        return [filled(one, values) for one in template]
    if not isinstance(template, dict):
        return template
    members = {name: filled(one, values) for name, one in template.items()}
    return {
        name.removesuffix("?"): value
        for name, value in members.items()
        if not name.endswith("?") or (any(value.values()) if isinstance(value, dict) else value)
    }


class ChatTraits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one provider's answers look.

    `head` stands in answers and chunks, `choice` in each choice. `opening` is sent before the first
    chunk, as it is (a comment), and `whole_opening` before a whole answer. `every_delta` is in each
    delta, `first_delta` is one of its own (None: there is none), `message` in each whole message,
    `last_members` in the last chunk, `whole_members` at the end of a whole answer.
    `has_whole_calls`: a tool call comes in one chunk; `has_joint_finish`: the finish comes with
    the last words or calls. `call_id` makes a call's id of its `token`, `name` and last `digit`,
    `call` is further members of one, `has_call_index`: its index, too (`has_whole_call_index`:
    also in a whole answer). `has_null_finish`: chunks before the last have a null as finish;
    `finishes` are the provider's own words for some. `usage` stands in a last chunk of its own
    (with these choices), in that of the finish, in its choice, in each chunk, or under `x_groq`;
    `is_usage_unasked`: also where no `stream_options` request it; `has_null_usage`: chunks have a
    null there until then.
    """

    id_prefix: str = "chatcmpl-"
    head: dict[str, Any] = {}
    choice: dict[str, Any] = {}
    opening: str = ""
    whole_opening: str = ""
    first_delta: dict[str, Any] | None = msgspec.field(
        default_factory=lambda: {"role": "assistant", "content": ""}
    )
    every_delta: dict[str, Any] = {}
    last_delta: dict[str, Any] = {}
    message: dict[str, Any] = {}
    last_members: dict[str, Any] = {}
    whole_members: dict[str, Any] = {}
    thoughts: str = "reasoning_content"
    has_whole_calls: bool = False
    has_joint_finish: bool = False
    has_call_index: bool = True
    has_whole_call_index: bool = True
    has_null_finish: bool = True
    finishes: dict[str, str] = {}
    call_id: str = "call_{token}"
    call: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "function"})
    usage: dict[str, Any] = msgspec.field(default_factory=lambda: dict(OPENAI_USAGE))
    usage_in: Literal["own_chunk", "last_chunk", "choice", "x_groq", "every_chunk"] = "own_chunk"
    is_usage_unasked: bool = False
    has_null_usage: bool = False
    own_chunk_choices: tuple[Any, ...] = ()

    def usage_of(self, tokens: Tokens) -> dict[str, Any]:
        """The usage that reports these counts."""
        counts = {
            "input": tokens.input,
            "output": tokens.output,
            "total": tokens.input + tokens.output,
            "cached": tokens.cached,
            "cache_write": tokens.cache_write,
            "uncached": tokens.input - tokens.cached,
            "reasoning": tokens.reasoning,
            "visible": tokens.output - tokens.reasoning,
        }
        return tokens.stated(filled(self.usage, counts))


# A refusal in the model's own words is an ordinary stop on this wire.
OPENAI: Final = ChatTraits(
    head={"service_tier": "default", "system_fingerprint": "fp_simulated"},
    choice={"logprobs": None},
    first_delta={"role": "assistant", "content": "", "refusal": None},
    message={"refusal": None, "annotations": []},
    usage={
        **OPENAI_USAGE,
        "prompt_tokens_details": {
            "cached_tokens": "$cached",
            "audio_tokens": 0,
            "cache_write_tokens?": "$cache_write",
        },
        "completion_tokens_details": {"reasoning_tokens": "$reasoning", "audio_tokens": 0},
    },
    has_null_usage=True,
    has_whole_call_index=False,
)


class ChatDialect(Dialect):
    """`POST /v1/chat/completions`, as one provider speaks it."""

    name = "chat"

    def __init__(self, traits: ChatTraits = OPENAI) -> None:
        self.traits = traits

    def read(self, exchange: Exchange) -> Ask:
        request = decode(_decoder, exchange.body)
        if not request.messages:
            raise Refusal(400, "Invalid 'messages': empty array. Expected at least one message.")
        size = sum(size_of(message.content) for message in request.messages)
        ask = Ask(
            model=request.model,
            stream=bool(request.stream),
            input_tokens=tokens_of(size),
            max_tokens=request.max_completion_tokens or request.max_tokens,
            choices=max(1, min(request.n or 1, MAX_CHOICES)),
            reasoning_tokens=effort_tokens(request.reasoning_effort),
            reads_cache=request.prompt_cache_key is not None,
            sim=given(request.sim),
        )
        with content_of("messages[].content"):
            _read_last_turn(ask, request.messages)
        if request.stream_options is not None:
            ask.include_usage = bool(request.stream_options.include_usage)
        if request.tools:
            _read_tools(ask, request)
        if request.response_format is not None and request.response_format.type != "text":
            ask.wants_json = True
            if request.response_format.json_schema is not None:
                ask.json_schema = bytes(request.response_format.json_schema.schema)
        return ask

    def plain(self, ask: Ask, response: Completion) -> bytes:
        traits = self.traits
        content = None if response.calls and not response.text else response.text
        message = {
            "role": "assistant",
            **_THOUGHTS[traits.thoughts].message(response.thinking, content),
        }
        message |= traits.message
        if response.is_declined:
            message |= {"content": None, "refusal": response.text}
        if response.calls:
            message["tool_calls"] = [
                self._call(call, number if traits.has_whole_call_index else None, call.arguments)
                for number, call in enumerate(response.calls)
            ]
        whole = self._head(ask, response, "chat.completion")
        whole["choices"] = [
            {
                "index": index,
                **traits.choice,
                "message": message,
                "finish_reason": self._end(response),
            }
            for index in range(ask.choices)
        ]
        if response.usage is not None:
            whole["usage"] = traits.usage_of(response.usage)
            whole = response.usage.around(whole)
        whole |= traits.whole_members
        return traits.whole_opening.encode() + encode(whole)

    def stream(self, ask: Ask, response: Completion) -> Stream:
        traits = self.traits
        head = self._head(ask, response, "chat.completion.chunk")
        wants_usage = ask.include_usage or traits.is_usage_unasked
        usage = (
            traits.usage_of(response.usage) if response.usage is not None and wants_usage else None
        )
        frames: list[bytes] = [traits.opening.encode()] if traits.opening else []

        def put(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> None:
            in_choice = {"usage": usage} if finish and usage and traits.usage_in == "choice" else {}
            if usage and traits.usage_in == "every_chunk":
                more = {"usage": usage}
            elif traits.has_null_usage and ask.include_usage:
                more = {"usage": None}
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
        if response.thinking:
            put(_THOUGHTS[traits.thoughts].delta(response.thinking))
        deltas = self._text_deltas(response)
        texts = len(deltas)
        deltas += self._all_call_deltas(response)
        last = deltas.pop() if traits.has_joint_finish and deltas else traits.last_delta
        for delta in deltas:
            put(delta)
        text_end = len(frames) - max(0, len(deltas) - texts) * ask.choices
        put(last, self._end(response), **self._last_members(response, usage))
        if response.usage is not None and usage is not None and traits.usage_in == "own_chunk":
            own = {"choices": list(traits.own_chunk_choices), "usage": usage}
            frames.append(_event(head | response.usage.around(own)))
        frames.append(DONE)
        more = _chunk(head, {"index": 0, "delta": {"content": "more "}, "finish_reason": None}, {})
        return Stream(frames=frames, text_end=text_end, more=lambda _: more)

    def _text_deltas(self, response: Completion) -> list[Mapping[str, Any]]:
        text = _THOUGHTS[self.traits.thoughts].text if response.thinking else str
        member = "refusal" if response.is_declined else "content"
        return [{member: text(piece)} for piece in response.deltas]

    def _all_call_deltas(self, response: Completion) -> Iterator[dict[str, Any]]:
        for number, call in enumerate(response.calls):
            for one in self._call_deltas(call, number):
                yield {"tool_calls": [one]}

    def _last_members(
        self, response: Completion, usage: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if self.traits.usage_in == "x_groq":
            members["x_groq"] = {"id": f"req_{response.id[:26]}", "usage": usage}
        if usage is not None and self.traits.usage_in == "last_chunk":
            members["usage"] = usage
        return members | self.traits.last_members

    def _call_deltas(self, call: Call, number: int) -> list[dict[str, Any]]:
        if self.traits.has_whole_calls:
            return [self._call(call, number, call.arguments)]
        rest = [
            {"index": number, "function": {"arguments": piece}}
            for piece in argument_pieces(call.arguments)
        ]
        return [self._call(call, number, ""), *rest]

    def _call(self, call: Call, number: int | None, arguments: str) -> dict[str, Any]:
        function = {"name": call.name, "arguments": arguments}
        return {
            **({"index": number} if self.traits.has_call_index and number is not None else {}),
            "id": call.given_id or self._call_id(call),
            **self.traits.call,
            "function": function,
        }

    def _end(self, response: Completion) -> str:
        finish = "stop" if response.is_declined else response.finish
        return self.traits.finishes.get(finish, finish)

    def _call_id(self, call: Call) -> str:
        digit = int(call.token[-1], 16)
        return self.traits.call_id.format(token=call.token, name=call.name, digit=digit)

    def _head(self, ask: Ask, response: Completion, kind: str) -> dict[str, Any]:
        return {
            "id": f"{self.traits.id_prefix}{response.id[:24]}",
            "object": kind,
            "created": response.created,
            "model": ask.model,
            **self.traits.head,
        }


def _chunk(head: dict[str, Any], choice: dict[str, Any], more: Mapping[str, Any]) -> bytes:
    return _event({**head, "choices": [choice], **more})


def _event(value: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(value)

"""The request that nearly every client of chat-completions sends: texts, calls, results, scalars.

Decoded from the bytes straight into types, and from these into the canonical request, without a
dictionary in between. A member, part or value beyond these types leaves the whole body to
`decode.py`, which reads anything and makes the same request of these.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from channels.dialects.chat.decode import read_others
from channels.dialects.chat.members import ORIGIN
from channels.json.lenient import NULL, UNREADABLE
from channels.json.value import value_in
from channels.translation import model
from channels.translation.body_members import Members
from channels.translation.call_arguments import call_arguments

_Stated = Annotated[str, Meta(min_length=1)]
_Nothing = Annotated[list[Raw], Meta(max_length=0)] | None


class _TextPart(Struct, forbid_unknown_fields=True, gc=False):
    text: str
    type: Literal["text"]
    cache_control: dict[str, object] | None = None


_Content = str | list[_TextPart]


class _Message(Struct, forbid_unknown_fields=True, tag_field="role", gc=False):
    content: _Content


class _SystemMessage(_Message, tag="system", gc=False):
    name: None = None


class _DeveloperMessage(_Message, tag="developer", gc=False):
    name: None = None


class _UserMessage(_Message, tag="user", gc=False):
    name: None = None


class _ToolMessage(_Message, tag="tool", kw_only=True, gc=False):
    tool_call_id: _Stated
    name: str | None = None


class _Function(Struct, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: str


class _Call(Struct, forbid_unknown_fields=True, gc=False):
    id: _Stated
    function: _Function
    type: Literal["function"] | None = None
    index: int | None = None


class _AssistantMessage(
    Struct, forbid_unknown_fields=True, tag_field="role", tag="assistant", gc=False
):
    """Libraries send back the members of a response that are null or empty."""

    content: _Content | None = None
    tool_calls: list[_Call] | None = None
    name: None = None
    refusal: None = None
    function_call: None = None
    audio: None = None
    reasoning_content: None = None
    annotations: _Nothing = None


_Messages = list[
    _SystemMessage | _DeveloperMessage | _UserMessage | _ToolMessage | _AssistantMessage
]


class _StreamOptions(Struct, forbid_unknown_fields=True, gc=False):
    include_usage: bool | None = None


class _Body(Struct, forbid_unknown_fields=True, gc=False):
    """Those with a value of any type are read by `decode.py`."""

    model: Raw
    messages: _Messages
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: int | float | None = None
    top_p: int | float | None = None
    top_k: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    n: int | None = None
    frequency_penalty: int | float | None = None
    presence_penalty: int | float | None = None
    parallel_tool_calls: bool | None = None
    user: str | None = None
    tools: Raw = NULL
    tool_choice: Raw = NULL
    response_format: Raw = NULL
    reasoning_effort: Raw = NULL


_decode = msgspec.json.Decoder(_Body).decode


def read_plain(body: bytes) -> model.Request | None:
    """Return the canonical request of a checked body; None for any but a plain one.

    One with an empty message is not plain either, because its place is reported. Raises
    InvalidRequest, as `decode_request`.
    """
    try:
        stated = _decode(body)
    except UNREADABLE:
        return None
    conversation = _conversation(stated.messages)
    if conversation is None:
        return None
    system, turns = conversation
    stop, maximum = stated.stop, stated.max_completion_tokens
    if stop is None:
        stops: tuple[str, ...] = ()
    else:
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
    return model.Request(
        origin=ORIGIN,
        system=system,
        turns=turns,
        max_tokens=stated.max_tokens if maximum is None else maximum,
        temperature=stated.temperature,
        top_p=stated.top_p,
        top_k=stated.top_k,
        stop=stops,
        seed=stated.seed,
        count=stated.n,
        frequency_penalty=stated.frequency_penalty,
        presence_penalty=stated.presence_penalty,
        parallel_tools=stated.parallel_tool_calls,
        user=stated.user,
        **_read_others(stated),
    )


def _read_others(stated: _Body) -> dict[str, Any]:
    """Return the canonical fields of members that may have a value of any type."""
    values: dict[str, object] = {}
    if stated.tools is not NULL:
        values["tools"] = stated.tools
    if stated.tool_choice is not NULL:
        values["tool_choice"] = value_in(stated.tool_choice)
    if stated.response_format is not NULL:
        values["response_format"] = value_in(stated.response_format)
    if stated.reasoning_effort is not NULL:
        values["reasoning_effort"] = value_in(stated.reasoning_effort)
    if not values:
        return values
    left_over: dict[str, object] = {}
    fields = read_others(Members(values), left_over)
    return {**fields, "extras": left_over} if left_over else fields


def _conversation(
    stated: _Messages,
) -> tuple[tuple[model.Text, ...], tuple[model.Turn, ...]] | None:
    """Return instructions and merged turns; None if a message is empty."""
    system: list[model.Text] = []
    turns: list[model.Turn] = []
    names: dict[str, str] = {}  # of calls, by id
    role: model.Role | None = None
    first: list[model.Part] = []  # results of a user's turn, texts of the model's
    then: list[model.Part] = []  # texts of a user's turn, calls of the model's
    for message in stated:
        content, kind = message.content, message.__class__
        if isinstance(content, str):
            texts = [model.Text(content)] if content else []
        else:
            texts = [_text_of(part) for part in content or () if part.text]
        is_instruction = kind is _SystemMessage or kind is _DeveloperMessage
        if is_instruction:
            if role is None:
                system += texts
                continue
            if not texts:  # no instructions are equivalent to empty ones
                continue
            texts = [replace(text, is_system=True) for text in texts]
        own: model.Role = "assistant" if kind is _AssistantMessage else "user"
        if own != role:
            if role is not None:
                turns.append(model.Turn(role, (*first, *then)))
                first, then = [], []
            role = own
        if isinstance(message, _AssistantMessage):
            if not texts and not message.tool_calls:
                return None
            first += texts
            for call in message.tool_calls or ():
                called = call.function
                names[call.id] = called.name
                then.append(model.ToolCall(call.id, called.name, call_arguments(called.arguments)))
        elif isinstance(message, _ToolMessage):
            name = names.get(message.tool_call_id, message.name or None)
            first.append(model.ToolResult(message.tool_call_id, name, tuple(texts)))
        elif texts:
            then += texts
        else:
            return None
    if role is not None:
        turns.append(model.Turn(role, (*first, *then)))
    return tuple(system), tuple(turns)


def _text_of(part: _TextPart) -> model.Text:
    mark = part.cache_control
    return model.Text(part.text) if mark is None else model.Text(part.text, {"cache_control": mark})

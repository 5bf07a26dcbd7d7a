"""Any request and any response, for the property tests."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from channels.dialects.token_counts import Usage
from channels.translation.events import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    MediaDelta,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.model import FinishReason, Media, Part, Refusal, Text, Thinking, ToolCall
from tests.unit.translation.pieces import (
    assistant,
    call,
    developer,
    file,
    image_url,
    result,
    system,
    tool,
    use,
    user,
)
from tests.unit.translation.response import Response

words = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc"], codec="utf-8"), min_size=1, max_size=12
).filter(lambda text: text.strip() == text and text != "")
names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,20}", fullmatch=True)
ids = st.from_regex(r"[a-z]{1,4}_[a-zA-Z0-9]{1,12}", fullmatch=True)
base64 = st.sampled_from(["iVBORw0KGgoAAAAN", "/9j/4AAQSkZJRgAB", "R0lGODlhAQABAIAA"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, json_values, max_size=3)
schemas = st.builds(
    lambda properties: {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    },
    st.dictionaries(names, st.just({"type": "string"}), max_size=3),
)


def maybe(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of these members."""
    return st.fixed_dictionaries({}, optional=members)


def joined(*objects: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for one in objects for name, value in one.items()}


def json_texts(value: Any) -> st.SearchStrategy[str]:
    """JSON text of a value, spaced in one of some ways."""
    return st.sampled_from([(",", ":"), (", ", ": ")]).map(
        lambda separators: json.dumps(value, separators=separators)
    )


_chat_text = st.builds(lambda text: {"type": "text", "text": text}, words)
_chat_image = st.builds(
    lambda url, detail: image_url(url, **detail),
    st.one_of(
        base64.map(lambda data: f"data:image/png;base64,{data}"),
        words.map(lambda text: f"https://a.example/{len(text)}"),
    ),
    maybe(detail=st.sampled_from(["low", "high", "auto"])),
)
_chat_file = st.just(file(file_data="data:application/pdf;base64,JVBERi0x", filename="a"))
_chat_audio = st.just({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}})
_chat_content = st.one_of(
    words, st.lists(st.one_of(_chat_text, _chat_image, _chat_file, _chat_audio), max_size=3)
)
_chat_texts = st.one_of(words, st.lists(_chat_text, min_size=1, max_size=3))
_chat_signed = st.builds(
    lambda text, sign: {
        "reasoning_content": text,
        "reasoning_details": [
            {
                "type": "reasoning.text",
                "index": 0,
                "format": "anthropic-claude-v1",
                "text": text,
                "signature": sign,
            },
            {
                "type": "reasoning.encrypted",
                "index": 1,
                "format": "anthropic-claude-v1",
                "data": sign,
            },
        ],
    },
    words,
    names,
)


@st.composite
def _chat_calls(draw: st.DrawFn) -> list[dict[str, Any]]:
    """An assistant's calls and what came of them."""
    made = draw(
        st.lists(st.tuples(ids, names, objects), min_size=1, max_size=3, unique_by=lambda c: c[0])
    )
    calls = [
        call(call_id, str(draw(json_texts(given))), name=name) for call_id, name, given in made
    ]
    stated = draw(maybe(content=words, reasoning_content=words) | _chat_signed)
    results = [result(call_id, draw(_chat_texts)) for call_id, _, _ in draw(st.permutations(made))]
    return [{"role": "assistant", "tool_calls": calls, **stated}, *results]


_chat_messages = st.lists(
    st.one_of(
        _chat_content.map(lambda content: [user(content)]),
        st.tuples(words, names).map(lambda pair: [user(pair[0], name=pair[1])]),
        _chat_texts.map(lambda content: [assistant(content)]),
        words.map(lambda text: [assistant(None, refusal=text)]),
        _chat_texts.map(lambda content: [system(content)]),
        words.map(lambda text: [developer(text)]),
        _chat_calls(),
    ),
    max_size=6,
).map(lambda groups: [message for group in groups for message in group])
_chat_tool = st.builds(
    lambda name, rest: tool(name, **rest),
    names,
    maybe(description=words, parameters=schemas, strict=st.booleans()),
)
_named = tool("f")
_chat_rest = maybe(
    temperature=st.floats(0, 2),
    top_p=st.floats(0, 1),
    top_k=st.integers(1, 100),
    seed=st.integers(0, 99),
    n=st.integers(1, 3),
    frequency_penalty=st.floats(-2, 2),
    presence_penalty=st.floats(-2, 2),
    stop=st.one_of(words, st.lists(words, min_size=1, max_size=4)),
    user=words,
    max_tokens=st.integers(1, 9999),
    reasoning_effort=st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh", "max"]),
    response_format=st.one_of(
        st.sampled_from([{"type": "text"}, {"type": "json_object"}]),
        st.builds(
            lambda name, schema, rest: {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": schema, **rest},
            },
            names,
            schemas,
            maybe(strict=st.booleans(), description=words),
        ),
    ),
    store=st.booleans(),
    logprobs=st.booleans(),
    metadata=st.dictionaries(names, words, max_size=2),
    service_tier=st.sampled_from(["auto", "default", "flex"]),
    verbosity=words,
)
_chat_tools = st.builds(
    lambda tools, rest: {"tools": tools, **rest},
    st.lists(_chat_tool, min_size=1, max_size=3),
    maybe(
        tool_choice=st.sampled_from(
            [
                "auto",
                "none",
                "required",
                _named,
                {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [_named]}},
            ]
        ),
        parallel_tool_calls=st.booleans(),
    ),
)
chat_requests = st.builds(
    lambda messages, rest, tools: {"model": "m", "messages": messages, **rest, **tools},
    _chat_messages,
    _chat_rest,
    st.one_of(st.just({}), _chat_tools),
)

_mark = maybe(cache_control=st.just({"type": "ephemeral"}))
_text = st.builds(lambda text, mark: {"type": "text", "text": text, **mark}, words, _mark)
_image = st.builds(
    lambda source, mark: {"type": "image", "source": source, **mark},
    st.one_of(
        st.just({"type": "url", "url": "https://a.example/x"}),
        st.just({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAAAN"}),
    ),
    _mark,
)
_document = st.builds(
    lambda source, rest: {"type": "document", "source": source, **rest},
    st.one_of(
        st.just({"type": "url", "url": "https://a.example/p"}),
        st.just({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"}),
        words.map(lambda text: {"type": "text", "media_type": "text/plain", "data": text}),
    ),
    maybe(title=words, context=words),
)
_thinking = st.one_of(
    st.builds(
        lambda text, sign: {"type": "thinking", "thinking": text, "signature": sign}, words, names
    ),
    names.map(lambda data: {"type": "redacted_thinking", "data": data}),
)
_content = st.one_of(words, st.lists(st.one_of(_text, _image, _document), max_size=3))


@st.composite
def _tool_turns(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = draw(
        st.lists(st.tuples(ids, names, objects), min_size=1, max_size=3, unique_by=lambda c: c[0])
    )
    stated = draw(st.lists(st.one_of(_thinking, _text), max_size=2))
    uses = [use(call_id, given, name=name) for call_id, name, given in made]
    results: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": call_id, **draw(_result)} for call_id, _, _ in made
    ]
    more = draw(st.lists(_text, max_size=1))
    return [assistant([*stated, *uses]), user([*more, *results])]


_result = st.builds(
    joined,
    maybe(content=st.one_of(words, st.lists(st.one_of(_text, _image), min_size=1, max_size=2))),
    maybe(is_error=st.just(True), cache_control=st.just({"type": "ephemeral"})),
)
_turns = st.lists(
    st.one_of(
        _content.map(lambda content: [user(content)]),
        st.one_of(words, st.lists(st.one_of(_thinking, _text), max_size=3)).map(
            lambda content: [assistant(content)]
        ),
        words.map(lambda text: [system(text)]),
        _tool_turns(),
    ),
    max_size=6,
).map(lambda groups: [turn for group in groups for turn in group])
_tool = st.builds(
    lambda name, schema, rest: {"name": name, "input_schema": schema, **rest},
    names,
    schemas,
    maybe(description=words, strict=st.booleans(), cache_control=st.just({"type": "ephemeral"})),
)
_choice = st.builds(
    joined,
    st.sampled_from([{"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "f"}]),
    maybe(disable_parallel_tool_use=st.booleans()),
)
_tools = st.builds(
    lambda tools, rest: {"tools": tools, **rest},
    st.lists(_tool, min_size=1, max_size=3),
    maybe(tool_choice=st.one_of(_choice, st.just({"type": "none"}))),
)
_rest = maybe(
    system=st.one_of(words, st.lists(_text, min_size=1, max_size=3)),
    temperature=st.floats(0, 1),
    top_p=st.floats(0, 1),
    top_k=st.integers(1, 99),
    stop_sequences=st.lists(words, min_size=1, max_size=6),
    metadata=words.map(lambda text: {"user_id": text}),
    thinking=st.one_of(
        st.just({"type": "disabled"}),
        st.builds(
            joined,
            st.one_of(
                st.just({"type": "adaptive"}),
                st.integers(1024, 2000).map(
                    lambda budget: {"type": "enabled", "budget_tokens": budget}
                ),
            ),
            maybe(display=st.sampled_from(["summarized", "omitted"])),
        ),
    ),
    output_config=st.one_of(
        maybe(
            effort=st.sampled_from(["low", "medium", "high", "xhigh", "max"]),
            format=schemas.map(lambda schema: {"type": "json_schema", "schema": schema}),
        ).filter(bool)
    ),
    service_tier=st.sampled_from(["auto", "standard_only"]),
    container=words,
    speed=st.sampled_from(["standard", "fast"]),
)
messages_requests = st.builds(
    lambda messages, rest, tools: {
        "model": "m",
        "max_tokens": 4000,
        "messages": messages,
        **rest,
        **tools,
    },
    _turns,
    _rest,
    st.one_of(st.just({}), _tools),
)


usages = st.builds(
    lambda fresh, read, written, output, thought: Usage(
        input_tokens=fresh + read + written,
        output_tokens=output,
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(thought, output),
    ),
    *[st.integers(0, 500)] * 5,
)


@st.composite
def responses_of(draw: st.DrawFn) -> Response:
    """An answer as either protocol may give it: thinking, text, refusal, calls, in this order."""
    signed = st.builds(lambda text, sign: Thinking(text, sign, "messages"), words, names)
    hidden = names.map(lambda data: Thinking("", redacted=data, signer="messages"))
    parts: list[Part] = list(draw(st.lists(st.one_of(signed, hidden), max_size=2)))
    parts += draw(st.lists(words.map(Text), max_size=1))
    parts += draw(st.lists(words.map(Refusal), max_size=1))
    made = draw(st.lists(st.tuples(ids, names, objects), max_size=3, unique_by=lambda c: c[0]))
    parts += [ToolCall(call_id, name, json.dumps(given)) for call_id, name, given in made]
    reasons: list[FinishReason] = ["stop", "length", "refusal"]
    reason: FinishReason = "tool_calls" if made else draw(st.sampled_from(reasons))
    return Response(
        id="up-1", model="up", parts=tuple(parts), finish=reason, usage=draw(st.none() | usages)
    )


@st.composite
def events_of(draw: st.DrawFn, response: Response) -> list[Event]:
    """The answer as events: in pieces of any size, its calls interleaved in any way."""
    events: list[Event] = [Began(response.id, response.model)]
    calls: list[list[Event]] = []
    for part in response.parts:
        if isinstance(part, ToolCall):
            index = len(calls)
            pieces = draw(_pieces(part.arguments))
            deltas: list[Event] = [CallDelta(index, piece) for piece in pieces]
            calls.append([CallBegan(index, part.id, part.name), *deltas])
        else:
            events.extend(draw(_part_events(part)))
    if draw(st.booleans()):
        events.extend(event for call in calls for event in call)
    else:
        while any(calls):
            # A call may begin only when those before it have.
            ready = [
                at
                for at, call in enumerate(calls)
                if call
                and (
                    not isinstance(call[0], CallBegan)
                    or all(not c or not isinstance(c[0], CallBegan) for c in calls[:at])
                )
            ]
            events.append(calls[draw(st.sampled_from(ready))].pop(0))
    assert response.finish is not None
    ending: list[Event] = [Finished(response.finish, response.stop_sequence, response.explanation)]
    if response.usage is not None:
        ending.insert(draw(st.integers(0, 1)), UsageStated(response.usage))
    return [*events, *ending, Ended()]


def _part_events(part: Part) -> st.SearchStrategy[list[Event]]:
    if isinstance(part, Text):
        return _pieces(part.text).map(lambda pieces: [TextDelta(piece) for piece in pieces])
    if isinstance(part, Refusal):
        return _pieces(part.text).map(lambda pieces: [RefusalDelta(piece) for piece in pieces])
    if isinstance(part, Media):
        return st.just([MediaDelta(part)])
    assert isinstance(part, Thinking), part
    last: Event = ThinkingDelta(
        signature=part.signature, redacted=part.redacted, signer=part.signer
    )
    return _pieces(part.text).map(
        lambda pieces: [*(ThinkingDelta(piece) for piece in pieces), last]
    )


def _pieces(text: str) -> st.SearchStrategy[list[str]]:
    """The text in pieces; none of them empty."""
    cuts = st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3).map(sorted)
    return cuts.map(
        lambda at: [
            text[start:end]
            for start, end in zip([0, *at], [*at, len(text)], strict=True)
            if text[start:end]
        ]
    )

"""Random requests of both protocols, as documented, so that decoding them is the whole truth."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.unit.translators.json_strategies import (
    base64,
    ids,
    joined,
    json_texts,
    maybe,
    names,
    objects,
    schemas,
    words,
)

# --- Chat-completions requests ---

_chat_text = st.builds(lambda text: {"type": "text", "text": text}, words)
_chat_image = st.builds(
    lambda url, detail: {"type": "image_url", "image_url": {"url": url, **detail}},
    st.one_of(
        base64.map(lambda data: f"data:image/png;base64,{data}"),
        words.map(lambda text: f"https://a.example/{len(text)}"),
    ),
    maybe(detail=st.sampled_from(["low", "high", "auto"])),
)
_chat_file = st.just(
    {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0x", "filename": "a"}}
)
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
        {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": str(draw(json_texts(given)))},
        }
        for call_id, name, given in made
    ]
    said = draw(maybe(content=words, reasoning_content=words) | _chat_signed)
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": draw(_chat_texts)}
        for call_id, _, _ in draw(st.permutations(made))
    ]
    return [{"role": "assistant", "tool_calls": calls, **said}, *results]


_chat_messages = st.lists(
    st.one_of(
        _chat_content.map(lambda content: [{"role": "user", "content": content}]),
        st.tuples(words, names).map(
            lambda pair: [{"role": "user", "content": pair[0], "name": pair[1]}]
        ),
        _chat_texts.map(lambda content: [{"role": "assistant", "content": content}]),
        words.map(lambda text: [{"role": "assistant", "content": None, "refusal": text}]),
        _chat_texts.map(lambda content: [{"role": "system", "content": content}]),
        words.map(lambda text: [{"role": "developer", "content": text}]),
        _chat_calls(),
    ),
    max_size=6,
).map(lambda groups: [message for group in groups for message in group])
_chat_tool = st.builds(
    lambda name, rest: {"type": "function", "function": {"name": name, **rest}},
    names,
    maybe(description=words, parameters=schemas, strict=st.booleans()),
)
_named = {"type": "function", "function": {"name": "f"}}
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
                {
                    "type": "allowed_tools",
                    "allowed_tools": {"mode": "auto", "tools": [_named]},
                },
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

# --- Messages requests ---

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
    said = draw(st.lists(st.one_of(_thinking, _text), max_size=2))
    uses = [
        {"type": "tool_use", "id": call_id, "name": name, "input": given}
        for call_id, name, given in made
    ]
    results: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": call_id, **draw(_result)} for call_id, _, _ in made
    ]
    more = draw(st.lists(_text, max_size=1))
    return [
        {"role": "assistant", "content": [*said, *uses]},
        {"role": "user", "content": [*more, *results]},
    ]


_result = st.builds(
    joined,
    maybe(content=st.one_of(words, st.lists(st.one_of(_text, _image), min_size=1, max_size=2))),
    maybe(is_error=st.just(True), cache_control=st.just({"type": "ephemeral"})),
)
_turns = st.lists(
    st.one_of(
        _content.map(lambda content: [{"role": "user", "content": content}]),
        st.one_of(words, st.lists(st.one_of(_thinking, _text), max_size=3)).map(
            lambda content: [{"role": "assistant", "content": content}]
        ),
        words.map(lambda text: [{"role": "system", "content": text}]),
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

"""Requests of a chat client that are read into types, and tools that are kept.

That both give what the general reader gives is seen wherever a test translates (`translated.py`).
"""

import json
import re
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from channels.dialects.chat.decode import decode_request
from channels.dialects.chat.plain_request import read_plain
from channels.errors import InvalidRequest
from channels.translation.kept_tools import KEY_BYTES_MAX, KeptTools, StatedTools, ToolKeeper
from channels.translation.losses import LossReport
from channels.translation.model import Request, Tool
from channels.translation.paths import TRANSLATIONS
from channels.translation.session import codec, read_request
from tests.support.rows import each
from tests.unit.translation.pieces import assistant, call, developer, result, system, user
from tests.unit.translation.translated import translated

words = st.sampled_from(["", " ", "a", "b\n", "ünï", "null", "{"])
contents = words | st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, words), max_size=3
)
marked = st.builds(
    lambda text, mark: [{"type": "text", "text": text, "cache_control": mark}],
    words,
    st.none() | st.just({"type": "ephemeral"}),
)
ids = st.sampled_from(["c1", "c2", "c3"])
calls = st.lists(
    st.builds(call, ids, st.sampled_from(["{}", "", "null", '{"a":1.0}', "no"])), max_size=3
)
EMPTY_MEMBERS: dict[str, Any] = {
    "refusal": None,
    "function_call": None,
    "audio": None,
    "annotations": [],
}
messages = st.lists(
    st.one_of(
        st.builds(system, contents | marked),
        st.builds(developer, contents),
        st.builds(user, contents | marked),
        st.builds(assistant, contents | st.none()),
        st.builds(
            lambda content, made, more: {**assistant(content), "tool_calls": made, **more},
            contents | st.none(),
            calls,
            st.sampled_from([{}, EMPTY_MEMBERS]),
        ),
        st.builds(result, ids, contents),
        st.builds(lambda id, name: {**result(id, "9"), "name": name}, ids, words),
    ),
    max_size=8,
)


def plain(*turns: dict[str, Any], **members: Any) -> Request | None:
    return read_plain(json.dumps({"model": "m", "messages": turns, **members}).encode())


numbers = st.sampled_from([None, 0, 1, 0.5, 2.0, -1])
values: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("temperature", "top_p", "frequency_penalty", "presence_penalty"), numbers),
    **dict.fromkeys(
        ("max_tokens", "max_completion_tokens", "top_k", "seed", "n"),
        st.sampled_from([None, 0, 7, 2**63, 2**70, 3.0]),
    ),
    "stop": st.none() | words | st.lists(words, max_size=5),
    "stream": st.booleans() | st.none(),
    "stream_options": st.sampled_from([None, {}, {"include_usage": True}, {"other": 1}]),
    "parallel_tool_calls": st.booleans() | st.none(),
    "user": st.none() | words,
    "tool_choice": st.sampled_from(
        [None, "auto", {"type": "function", "function": {"name": "f"}}, 1]
    ),
    "response_format": st.sampled_from([None, {"type": "json_object"}, {"type": "other"}, "text"]),
    "reasoning_effort": st.sampled_from([None, "low", "unheard-of", 1]),
    "store": st.booleans(),
}


@settings(max_examples=600, deadline=None)
@given(messages, st.fixed_dictionaries({}, optional=values))
def test_plain_request_is_that_of_the_general_reader(
    turns: list[dict[str, Any]], members: dict[str, Any]
) -> None:
    try:
        read = plain(*turns, **members)
    except InvalidRequest as invalid:
        with pytest.raises(InvalidRequest, match=re.escape(invalid.message)):
            decode_request({"messages": turns, **members})
        return
    if read is not None:
        request = decode_request({"messages": turns, **members})
        assert read == request
        assert repr(read) == repr(request), "integers stay integers"


@each(
    "turns",
    [
        [user("hi")],
        [system("s"), user([{"type": "text", "text": "hi"}])],
        [user("hi"), {**assistant(None), "tool_calls": [call("c1", "{}")]}, result("c1", "9")],
        [user("hi"), {**assistant("yes"), **EMPTY_MEMBERS}, developer("d"), user("so")],
    ],
)
def test_texts_calls_and_results_are_read_into_types(turns: list[dict[str, Any]]) -> None:
    assert plain(*turns) is not None


@each(
    "turn",
    [
        user("hi", name="n"),
        user(""),
        user([{"type": "image_url", "image_url": {"url": "https://a.example/b"}}]),
        {**user("hi"), "unknown": 1},
        {**assistant("x"), "reasoning_content": "thought"},
        {**assistant("x"), "annotations": [1]},
        {**assistant(None), "tool_calls": [{**call("c1", "{}"), "extra_content": {}}]},
        {"role": "tool", "tool_call_id": "", "content": "9"},
        {"role": "critic", "content": "x"},
    ],
)
def test_anything_else_is_left_to_the_general_reader(turn: dict[str, Any]) -> None:
    assert plain(user("hi"), turn) is None


SCHEMA = {"anyOf": [{"type": "object", "properties": {"a": {"type": ["string", "null"]}}}]}
FUNCTION = {"name": "mcp.f", "description": "d", "strict": True, "parameters": SCHEMA}
OF_MESSAGES = {"name": "mcp.f", "description": "d", "strict": True, "input_schema": SCHEMA}
MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"type": "function", "function": FUNCTION, **MARK},
        {"type": "function", "function": {"name": "g"}, "unknown": 1},
        {"type": "web_search"},
    ],
    "messages": [{**OF_MESSAGES, **MARK}, {"name": "g", "unknown": 1}, {"type": "web_search_1"}],
}


@each("client, upstream", [way for way in TRANSLATIONS if way[0] in TOOLS])
def test_kept_tools_are_made_once_and_never_changed(client: str, upstream: str) -> None:
    body = {"messages": [user("hi")], "tools": TOOLS[client]}
    options = {"is_session": True} if upstream == "messages" else {}
    expected = translated(client, upstream, body, **options)
    stated = json.dumps(body).encode()
    read = read_request(stated, client)
    tools = read.tools
    assert isinstance(tools, KeptTools)
    assert tools is read_request(stated, client).tools
    states = []
    for _ in range(3):
        report = LossReport()
        sent = codec(upstream).encode_request(
            read, model="up", stream=False, max_tokens=4000, report=report, **options
        )
        assert (sent, report.dropped) == expected
        states.append(deepcopy((tuple(tools), tools.made)))
    assert states[0] == states[1] == states[2]


def test_keeper_forgets_the_oldest_beyond_its_bytes() -> None:
    keeper = ToolKeeper(bytes_max=200)
    first, second, third = (Raw(b'"%s"' % (name * 38)) for name in (b"a", b"b", b"c"))
    for stated in (first, second, first, third, first):
        tools = StatedTools((Tool(bytes(stated)[1:-1].decode()),), {})
        assert (keeper.find(stated) or keeper.keep(stated, tools)).tools == tools.tools
    assert keeper.bytes == 160
    assert [keeper.find(stated) is None for stated in (first, second, third)] == [
        False,
        True,
        False,
    ]
    long = Raw(b'"%s"' % (b"0" * KEY_BYTES_MAX))
    assert not isinstance(keeper.keep(long, tools).tools, KeptTools)
    assert (keeper.find(long), keeper.bytes) == (None, 160), "what is too long is not kept"

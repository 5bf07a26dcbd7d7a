"""What is marked for a prompt's cache where the client's own protocol needs no marks."""

from typing import Any

from channels.dialects.messages.cache_marks import LONG_BYTES_MIN
from channels.translation.paths import translation_between
from channels.translation.session import TranslatedCall
from tests.support.rows import cases

MARK = {"type": "ephemeral"}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name}} for name in ("f", "g")
]
FUNCTION = {"type": "function", "name": "f"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ROUND: list[dict[str, Any]] = [
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "9"},
]
CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]


def sent(
    client: str, is_session: bool | None, is_repeated: bool = False, **members: Any
) -> dict[str, Any]:
    stated = {"model": "m", **members}
    call = TranslatedCall(translation_between(client, "messages"), stated)
    options = {"is_session": is_session, "is_repeated": is_repeated}
    return call.upstream_body(model="up", stream=False, max_tokens=9, **options)


def marks(body: Any, path: str = "") -> list[str]:
    """The paths of the objects that are marked, which all have the one mark."""
    if isinstance(body, list):
        return [one for index, item in enumerate(body) for one in marks(item, f"{path}.{index}")]
    if not isinstance(body, dict):
        return []
    assert body.get("cache_control", MARK) == MARK
    own = [path.strip(".")] if "cache_control" in body else []
    inner = (marks(item, f"{path}.{name}") for name, item in body.items())
    return own + [one for found in inner for one in found]


ALL = ["messages.0.content.0", "system.0", "tools.1"]


@cases(
    "is_session, members, marked",
    (True, {}, ALL),
    (False, {}, []),
    (None, {"prompt_cache_key": "k"}, []),
    (False, {"prompt_cache_key": "k"}, ALL),
    (False, {"metadata": {"session_id": "k"}}, ALL),
    (False, {"user": "k"}, []),
    (True, {"tools": []}, []),
    (True, {"prompt_cache_key": "k", "prompt_cache_options": {"mode": "explicit"}}, []),
    (False, {"messages": CHAT + ROUND}, []),
    (
        False,
        {"messages": CHAT + ROUND * 2},
        ["messages.2.content.0", "messages.4.content.0", "system.0", "tools.1"],
    ),
    (True, {"messages": CHAT[1:]}, ["messages.0.content.0", "tools.1"]),
    (
        True,
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}] * 2}]},
        ["messages.0.content.1", "tools.1"],
    ),
)
def test_what_an_agent_sends_again_is_marked(
    is_session: bool | None, members: dict[str, Any], marked: list[str]
) -> None:
    body = sent("chat", is_session, **{"messages": CHAT, "tools": TOOLS, **members})
    assert sorted(marks(body)) == marked


LONG = [{"type": "function", "function": {"name": "f", "description": "d" * LONG_BYTES_MIN}}]
WORDS = [{"role": "system", "content": "s" * LONG_BYTES_MIN}, CHAT[1]]
SERVED = [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And?"}]
HEAD = ["system.0", "tools.0"]


@cases(
    "is_session, members, marked",
    (False, {"messages": CHAT, "tools": LONG}, HEAD),
    (False, {"messages": WORDS, "tools": TOOLS[:1]}, HEAD),
    (
        False,
        {"messages": CHAT + SERVED, "tools": LONG},
        ["messages.0.content.0", "messages.2.content.0", *HEAD],
    ),
    (True, {"messages": CHAT, "tools": LONG}, ["messages.0.content.0", *HEAD]),
    (None, {"messages": CHAT, "tools": LONG}, []),
    (False, {"messages": WORDS}, []),
    (False, {"messages": CHAT + SERVED, "tools": TOOLS}, []),
    (False, {"messages": CHAT, "tools": LONG, "prompt_cache_options": {"mode": "explicit"}}, []),
)
def test_long_tools_and_instructions_are_marked_for_whoever_comes_next(
    is_session: bool | None, members: dict[str, Any], marked: list[str]
) -> None:
    assert sorted(marks(sent("chat", is_session, **members))) == marked


TURNS = ["messages.0.content.0", "messages.2.content.0"]


@cases(
    "members, marked",
    ({"messages": CHAT}, ["system.0", "tools.1"]),
    ({"messages": CHAT + SERVED}, [*TURNS, "system.0", "tools.1"]),
    ({"messages": CHAT, "tools": []}, []),
    ({"messages": CHAT, "prompt_cache_options": {"mode": "explicit"}}, []),
)
def test_short_tools_and_instructions_are_marked_once_they_are_repeated(
    members: dict[str, Any], marked: list[str]
) -> None:
    assert sorted(marks(sent("chat", False, True, **{"tools": TOOLS, **members}))) == marked


def test_marks_of_the_clients_own_are_all_there_are() -> None:
    part = {"type": "text", "text": "hi", "cache_control": MARK}
    body = sent("chat", True, messages=[{"role": "user", "content": [part]}, *ROUND], tools=TOOLS)
    assert marks(body) == ["messages.0.content.0"]
    marked = [TOOLS[0], {**TOOLS[1], "cache_control": MARK}]
    assert marks(sent("chat", True, messages=CHAT, tools=marked)) == ["tools.1"]
    result = {**ROUND[1], "content": [part]}
    body = sent("chat", True, messages=[*CHAT, ROUND[0], result], tools=TOOLS)
    assert len(marks(body)) == 1


POINT = {"mode": "explicit"}
EXPLICIT = {"prompt_cache_options": POINT}
LOST = "input.content.prompt_cache_breakpoint"


@cases(
    "is_session, points, members, marked, lost",
    (False, [{**POINT, "ttl": "12h"}, None], {}, [0], [f"{LOST}.ttl"]),
    (False, [POINT] * 6, EXPLICIT, [2, 3, 4, 5], [LOST]),
    (True, [POINT, None], EXPLICIT, [0], []),
    (True, [POINT] * 4 + [None], {}, [1, 2, 3, 4], [LOST]),
    (True, [POINT] * 4, {}, [0, 1, 2, 3], []),
    (None, [POINT], {}, [], [LOST]),
    (False, ["here"], {}, [], [LOST]),
)
def test_breakpoints_are_marks_of_which_the_latest_four_are_kept(
    is_session: bool | None, points: list[Any], members: Any, marked: list[int], lost: list[str]
) -> None:
    text = {"type": "input_text", "text": "hi"}
    content = [{**text, "prompt_cache_breakpoint": one} if one else text for one in points]
    stated = {"input": [{"role": "user", "content": content}], "tools": [FUNCTION], **members}
    call = TranslatedCall(translation_between("responses", "messages"), stated)
    body = call.upstream_body(model="up", stream=False, max_tokens=9, is_session=is_session)
    assert marks(body) == [f"messages.0.content.{index}" for index in marked]
    assert sorted(call.report.dropped) == lost


def test_breakpoints_of_instructions_results_and_marks_share_the_four() -> None:
    part = {"type": "text", "text": "s", "prompt_cache_breakpoint": POINT}
    result = {**ROUND[1], "content": [part, {"type": "text", "text": "s", "cache_control": MARK}]}
    message = {"role": "user", "content": [part, {**part, "text": " "}, part]}
    turns = [{"role": "developer", "content": [part]}, message, ROUND[0], result]
    of_user, of_result = "messages.0.content", "messages.2.content.0.content"
    assert marks(sent("chat", True, messages=turns, tools=TOOLS)) == [
        f"{of}.{index}" for of in (of_user, of_result) for index in (0, 1)
    ]


@cases("is_session", True, None)
def test_a_clients_own_marks_above_four_are_dropped_the_earliest_of_the_turns_first(
    is_session: bool | None,
) -> None:
    own = {"cache_control": MARK}
    words = {"type": "text", "text": "w", **own}
    calling = {"role": "assistant", "tool_calls": [{**CALL, "id": name} for name in "abc"]}
    results = [{"role": "tool", "tool_call_id": name, "content": [words]} for name in "abc"]
    turns = [
        {"role": "system", "content": [words]},
        {"role": "user", "content": [words]},
        calling,
        *results,
    ]
    tools = [{**tool, **own} for tool in TOOLS]
    body = sent("chat", is_session, messages=turns, tools=tools[:1])
    assert sorted(marks(body)) == [
        "messages.2.content.1.content.0",
        "messages.2.content.2.content.0",
        "system.0",
        "tools.0",
    ]
    body = sent("chat", is_session, messages=CHAT, tools=tools * 3)
    assert marks(body["tools"]) == ["2", "3", "4", "5"]


def test_a_conversation_of_responses_is_marked_by_its_key() -> None:
    body = sent("responses", False, input="hi", tools=[FUNCTION], prompt_cache_key="k")
    assert sorted(marks(body)) == ["messages.0.content.0", "tools.0"]
    assert not marks(sent("responses", False, input="hi", tools=[FUNCTION]))

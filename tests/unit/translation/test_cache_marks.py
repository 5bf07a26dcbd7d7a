"""What is marked for a prompt's cache where the client's own protocol needs no marks."""

from typing import Any

from channels.translation.session import TranslatedCall, translation_between
from tests.support.rows import cases

MARK = {"type": "ephemeral"}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name}} for name in ("f", "g")
]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ROUND: list[dict[str, Any]] = [
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "9"},
]
CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]


def sent(client: str, is_session: bool | None, **members: Any) -> dict[str, Any]:
    stated = {"model": "m", **members}
    call = TranslatedCall(translation_between(client, "messages"), stated, redact=str)
    return call.upstream_body(model="up", stream=False, max_tokens=9, is_session=is_session)


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
    (False, {"prompt_cache_key": "k", "prompt_cache_options": {"mode": "explicit"}}, []),
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


def test_marks_of_the_clients_own_are_all_there_are() -> None:
    part = {"type": "text", "text": "hi", "cache_control": MARK}
    body = sent("chat", True, messages=[{"role": "user", "content": [part]}, *ROUND], tools=TOOLS)
    assert marks(body) == ["messages.0.content.0"]
    marked = [TOOLS[0], {**TOOLS[1], "cache_control": MARK}]
    assert marks(sent("chat", True, messages=CHAT, tools=marked)) == ["tools.1"]
    result = {**ROUND[1], "content": [part]}
    body = sent("chat", True, messages=[*CHAT, ROUND[0], result], tools=TOOLS)
    assert len(marks(body)) == 1


def test_a_conversation_of_responses_is_marked_by_its_key() -> None:
    tool = {"type": "function", "name": "f"}
    body = sent("responses", False, input="hi", tools=[tool], prompt_cache_key="k")
    assert sorted(marks(body)) == ["messages.0.content.0", "tools.0"]
    assert not marks(sent("responses", False, input="hi", tools=[tool]))

"""The table of translations, one attempt put together from it, and messages without content."""

import json
from typing import Any

import pytest

from channels.errors import InvalidRequest, UpstreamMalformed
from channels.translation.model import Protocol
from channels.translation.paths import TRANSLATIONS, translation_between, upstream_protocols
from channels.translation.session import TranslatedCall
from tests.support.rows import cases, each
from tests.unit.translation.pieces import assistant, text, use
from tests.unit.translation.translated import (
    data_of,
    metered,
    read_body,
    sse,
    stream_of,
    translated,
)

LONG = "mcp__" + "x" * 70


def shown(message: str) -> str:
    return message.replace("upstream.example", "[hidden]")


def attempt(client: Protocol, upstream: Protocol, **body: Any) -> TranslatedCall:
    stated = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **body}
    return TranslatedCall(translation_between(client, upstream), stated)


# Path, client, upstream, value of the header, name in the configuration: those without responses.
SPECIFIED = [
    ("T1", "chat", "messages", "openai_chat_to_anthropic_messages", "chat_to_messages"),
    ("T2", "chat", "native", "openai_chat_to_gemini_native", "chat_to_native"),
    ("T3", "messages", "chat", "anthropic_messages_to_openai_chat", "messages_to_chat"),
    ("T4", "native", "chat", "gemini_native_to_openai_chat", "native_to_chat"),
    ("T6", "native", "messages", "anthropic_messages_to_gemini_native", "native_to_messages"),
    ("T7", "responses", "native", "openai_responses_to_gemini_native", "responses_to_native"),
    ("T8", "responses", "chat", "openai_responses_to_openai_chat", "responses_to_chat"),
    (
        *("T9", "responses", "messages"),
        *("openai_responses_to_anthropic_messages", "responses_to_messages"),
    ),
    ("T10", "chat", "responses", "openai_chat_to_openai_responses", "chat_to_responses"),
    (
        *("T11", "messages", "responses"),
        *("anthropic_messages_to_openai_responses", "messages_to_responses"),
    ),
    ("T12", "native", "responses", "gemini_native_to_openai_responses", "native_to_responses"),
]


def test_paths_are_called_as_documented() -> None:
    rows = [
        (row.path, row.client, row.upstream, row.header, row.setting)
        for row in TRANSLATIONS.values()
    ]
    assert rows == SPECIFIED


def test_request_goes_over_and_tells_what_it_lost() -> None:
    call = attempt("chat", "messages", n=2, logprobs=True)
    body = call.upstream_body(model="up", stream=True, max_tokens=9)
    assert body == {
        "model": "up",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    }
    assert call.report.warning() == "n; logprobs"


def test_options_of_the_upstreams_codec_are_passed_on() -> None:
    body = attempt("messages", "chat").upstream_body(
        model="up", stream=False, max_tokens=9, max_tokens_param="max_completion_tokens"
    )
    assert body["max_completion_tokens"] == 9


def test_whole_answer_comes_back_under_the_clients_tool_names() -> None:
    call = attempt("messages", "chat", tools=[{"name": LONG, "input_schema": {"type": "object"}}])
    sent = call.upstream_body(model="up", stream=False, max_tokens=9)
    name = sent["tools"][0]["function"]["name"]
    assert name != LONG
    made = {"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}
    whole = {"choices": [{"message": {"tool_calls": [made]}, "finish_reason": "tool_calls"}]}
    body = json.dumps(whole).encode()
    response = json.loads(
        call.translate_response(*read_body("chat", body), id="msg_1", created=1, model="m")
    )
    assert response["content"][0]["name"] == LONG


def test_tools_that_are_no_functions_come_back_as_what_they_are() -> None:
    """Also where functions of other names would be the same, and whatever a name is made of."""
    tools = [
        {"type": "function", "name": "mcp__a__f"},
        {"type": "namespace", "name": "mcp__a", "tools": [{"type": "function", "name": "f"}]},
        {"type": "namespace", "name": "n.1", "tools": [{"type": "custom", "name": "k"}]},
        {"type": "custom", "name": "edit"},
    ]
    stated = {"model": "m", "input": "hi", "tools": tools}
    call = TranslatedCall(translation_between("responses", "messages"), stated)
    sent = call.upstream_body(model="up", stream=False, max_tokens=9)
    names = [tool["name"] for tool in sent["tools"]]
    assert len(set(names)) == 4
    assert (names[0], names[3]) == ("mcp__a__f", "edit")
    blocks = [use(f"t{index}", {"input": "x"}, name=name) for index, name in enumerate(names)]
    body = json.dumps({"content": blocks, "stop_reason": "tool_use"}).encode()
    response = json.loads(
        call.translate_response(*read_body("messages", body), id="r", created=1, model="m")
    )
    kept = ("type", "namespace", "name", "arguments", "input")
    assert [{key: item[key] for key in kept if key in item} for item in response["output"]] == [
        {"type": "function_call", "name": "mcp__a__f", "arguments": '{"input":"x"}'},
        {"type": "function_call", "namespace": "mcp__a", "name": "f", "arguments": '{"input":"x"}'},
        {"type": "custom_tool_call", "namespace": "n.1", "name": "k", "input": "x"},
        {"type": "custom_tool_call", "name": "edit", "input": "x"},
    ]


CALLS_OF_THE_CLIENTS = [
    (
        "local_shell",
        {"command": ["ls"], "user": ""},
        {"type": "exec", "command": ["ls"], "env": {}},
    ),
    (
        "local_shell",
        {
            "command": "ls -l",
            "timeout_ms": 9,
            "working_directory": "/tmp",
            "env": {"A": "b", "C": 1},
        },
        {
            "type": "exec",
            "command": ["bash", "-lc", "ls -l"],
            "env": {"A": "b"},
            "timeout_ms": 9,
            "working_directory": "/tmp",
        },
    ),
    ("local_shell", {"command": {"rm": "-r"}}, {"type": "exec", "command": [], "env": {}}),
    (
        "shell",
        {"commands": ["ls", "pwd"], "timeout_ms": "9"},
        {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": None},
    ),
    (
        "apply_patch",
        {"type": "create_file", "path": "a.txt", "diff": "+a"},
        {"type": "create_file", "path": "a.txt", "diff": "+a"},
    ),
    (
        "apply_patch",
        {"type": "delete_file", "path": "a.txt"},
        {"type": "delete_file", "path": "a.txt"},
    ),
    ("apply_patch", {"patch": "x"}, {"type": "update_file", "path": "", "diff": ""}),
    ("tool_search", {"query": "mail"}, {"query": "mail"}),
]


@each("kind, arguments, action", CALLS_OF_THE_CLIENTS)
def test_calls_of_tools_that_clients_run_are_items_of_their_own_whole_and_streamed(
    kind: str, arguments: Any, action: Any
) -> None:
    """Beside a function of the same name; the stream's item begins with what is to be run."""
    tools = [
        {"type": "function", "name": kind},
        {"type": kind, **({"execution": "client"} if kind == "tool_search" else {})},
    ]
    stated = {"model": "m", "input": "hi", "tools": tools}
    call = TranslatedCall(translation_between("responses", "chat"), stated)
    sent = call.upstream_body(model="up", stream=True, max_tokens=None)
    name, own = (tool["function"]["name"] for tool in sent["tools"])
    assert name == kind != own
    calls = [
        {"index": index, "id": f"c{index}", "function": {"name": one, "arguments": text}}
        for index, (one, text) in enumerate([(own, json.dumps(arguments)), (name, "{}")])
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = json.dumps({"choices": [choice]}).encode()
    whole = json.loads(
        call.translate_response(*read_body("chat", body), id="r", created=1, model="m")
    )["output"]
    member = {"apply_patch": "operation", "tool_search": "arguments"}.get(kind, "action")
    assert [item["type"] for item in whole] == [f"{kind}_call", "function_call"]
    assert (whole[0][member], whole[0]["call_id"]) == (action, "c0")
    assert whole[0].get("execution") == ("client" if kind == "tool_search" else None)
    stream, meter = stream_of(call, include_usage=False, redact=shown)
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    events = sse({"choices": [{"index": 0, "delta": {"content": "a"}}]}, chunk, end, b"[DONE]")
    out = data_of(
        b"".join(stream.take_event(metered(meter, event)) for event in events) + stream.end_stream()
    )
    added = {
        event["output_index"]: event["item"]
        for event in out
        if event["type"] == "response.output_item.added"
    }
    ended = out[-1]["response"]["output"]
    assert {index: item["type"] for index, item in added.items()} == {
        index: item["type"] for index, item in enumerate(ended)
    }
    assert ended[0]["type"] == "message"
    ran = next(item for item in ended if item["type"] == f"{kind}_call")
    assert (ran[member], ran["status"]) == (action, "completed")
    assert {**ran, "status": "in_progress"} in added.values()


def test_malformed_answer_and_bad_request_are_reported() -> None:
    read = read_body("messages", b"{}")
    with pytest.raises(UpstreamMalformed):
        attempt("chat", "messages").translate_response(*read, id="x", created=1, model="m")
    with pytest.raises(InvalidRequest):
        attempt("chat", "messages", top_p="high")


def test_failure_before_any_content_is_the_callers() -> None:
    stream, meter = stream_of(attempt("chat", "messages"), include_usage=False, redact=shown)
    error = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "upstream.example is busy"},
    }
    start = {"type": "message_start", "message": {"id": "m"}}
    assert [stream.take_event(metered(meter, one)) for one in sse(start, error)] == [b"", b""]
    assert stream.failed is not None
    assert stream.failed.message == "[hidden] is busy"
    assert not stream.has_written


def test_protocols_a_client_is_translated_to_are_those_switched_on_the_preferred_first() -> None:
    everything = frozenset(row.setting for row in TRANSLATIONS.values())
    assert upstream_protocols("chat", everything) == ("native", "messages", "responses")
    assert upstream_protocols("native", everything) == ("chat", "messages", "responses")
    assert upstream_protocols("messages", everything) == ("chat", "responses")
    assert upstream_protocols("responses", everything) == ("native", "chat", "messages")
    assert upstream_protocols("chat", frozenset({"chat_to_messages"})) == ("messages",)


@cases(
    "client, upstream, member, place",
    ("messages", "chat", "metadata.user_id", "user"),
    ("chat", "messages", "user", "metadata.user_id"),
    ("chat", "messages", "safety_identifier", "metadata.user_id"),
    ("chat", "responses", "user", "user"),
    ("chat", "responses", "safety_identifier", "safety_identifier"),
)
def test_long_id_of_an_end_user_goes_over_as_a_digest_that_stays_the_same(
    client: Protocol, upstream: Protocol, member: str, place: str
) -> None:
    def sent(user: str) -> tuple[str, str | None]:
        outer, _, inner = member.partition(".")
        members: dict[str, Any] = {outer: {inner: user} if inner else user}
        call = attempt(client, upstream, **members)
        value: Any = call.upstream_body(model="m", stream=False, max_tokens=9)
        for name in place.split("."):
            value = value[name]
        return value, call.report.warning()

    assert sent("u" * 64) == ("u" * 64, None)
    for long in ("u" * 65, "u" * 149 + "é", "u" * 64 + "\ud800"):
        digest, warning = sent(long)
        assert (len(digest), warning) == (64, member)
        assert sent(long) == (digest, member)
    assert sent("u" * 65) != sent("u" * 66)


PATHS: list[tuple[Protocol, Protocol]] = list(TRANSLATIONS)
# Upstreams' protocols in which a message may be empty.
SAYS_EMPTY: tuple[Protocol, ...] = ("chat", "responses")

THOUGHT = {"thought": True, "text": ""}
NOTHING: dict[Protocol, list[Any]] = {
    "chat": ["", [], None, [text("")]],
    "messages": ["", [], [text("")]],
    "native": [[], [{"text": ""}], [{}], [{"text": None}], [THOUGHT]],
    "responses": ["", [], [{"type": "input_text", "text": ""}]],
}
# The member that holds the conversation, where it has another name.
TURNS: dict[Protocol, str] = {"native": "contents", "responses": "input"}
ASSISTANT: dict[Protocol, str] = {
    "chat": "assistant",
    "messages": "assistant",
    "native": "model",
    "responses": "assistant",
}


def message(client: Protocol, role: str, content: Any) -> dict[str, Any]:
    if client == "native":
        parts = [{"text": content}] if isinstance(content, str) else content
        return {"role": role, "parts": parts}
    return {"role": role, "content": content}


def request(client: Protocol, *messages: dict[str, Any]) -> dict[str, Any]:
    if client == "native":
        return {"contents": list(messages)}
    return {"model": "m", "max_tokens": 100, TURNS.get(client, "messages"): list(messages)}


def path_of(client: Protocol, index: int) -> str:
    if client == "native":
        return f"contents[{index}].parts"
    return f"{TURNS.get(client, 'messages')}[{index}].content"


def message_of(upstream: Protocol, sent: dict[str, Any]) -> list[tuple[str, Any]]:
    """Roles and contents of a chat or responses body, a lone empty part as the text it is."""
    found = []
    for one in sent["input" if upstream == "responses" else "messages"]:
        content = one["content"]
        if isinstance(content, list) and len(content) == 1:
            content = content[0]["text"]
        found.append((one["role"], content))
    return found


CASES = [(client, upstream, content) for client, upstream in PATHS for content in NOTHING[client]]


@each("client, upstream, content", CASES)
@each("is_models", [False, True])
@each("place", [0, 1, 2])
def test_empty_message_in_a_conversation(
    client: Protocol, upstream: Protocol, content: Any, is_models: bool, place: int
) -> None:
    words, roles = ["A", "B", "C"], ("user", ASSISTANT[client])
    messages = [
        message(client, roles[(is_models + index - place) % 2], word)
        for index, word in enumerate(words)
    ]
    messages[place] = message(client, roles[is_models], content)
    words[place] = ""
    check(client, upstream, request(client, *messages), place, words)


def check(
    client: Protocol, upstream: Protocol, body: dict[str, Any], place: int, words: list[str]
) -> None:
    if upstream not in SAYS_EMPTY:
        with pytest.raises(InvalidRequest) as refusal:
            translated(client, upstream, body)
        assert refusal.value.param == path_of(client, place)
        return
    sent, _ = translated(client, upstream, body)
    turns = body[TURNS.get(client, "messages")]
    roles = ["assistant" if turn["role"] == "model" else turn["role"] for turn in turns]
    assert message_of(upstream, sent) == list(zip(roles, words, strict=True))


@each("client, upstream, content", CASES)
def test_only_message_is_empty(client: Protocol, upstream: Protocol, content: Any) -> None:
    check(client, upstream, request(client, message(client, "user", content)), 0, [""])


@each("client, upstream, content", CASES)
def test_empty_message_beside_one_of_its_role(
    client: Protocol, upstream: Protocol, content: Any
) -> None:
    """Neighbours of one role are one turn, which says what it says without the empty one."""
    body = request(client, message(client, "user", "A"), message(client, "user", content))
    if upstream not in SAYS_EMPTY:
        with pytest.raises(InvalidRequest) as refusal:
            translated(client, upstream, body)
        assert refusal.value.param == path_of(client, 1)
    else:
        assert message_of(upstream, translated(client, upstream, body)[0]) == [("user", "A")]


@each("client, upstream", PATHS)
@cases("role", "system", "developer")
def test_empty_instructions_are_none(client: Protocol, upstream: Protocol, role: str) -> None:
    if client == "native":
        empty = {
            **request(client, message(client, "user", "A")),
            "systemInstruction": {"parts": []},
        }
        plain = request(client, message(client, "user", "A"))
    elif client == "messages" and role == "developer":
        empty = {**request(client, message(client, "user", "A")), "system": ""}
        plain = request(client, message(client, "user", "A"))
    else:
        turns = [message(client, "user", "A"), message(client, ASSISTANT[client], "B")]
        more = message(client, "user", "C")
        nothing = message(client, role, "")
        empty = request(client, nothing, *turns, nothing, more)
        plain = request(client, *turns, more)
    assert translated(client, upstream, empty) == translated(client, upstream, plain)


@each(
    "client, upstream", [path for path in PATHS if path[0] != "native" and path[1] != "responses"]
)
def test_empty_instructions_alone_are_no_conversation(client: Protocol, upstream: Protocol) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        translated(client, upstream, request(client, message(client, "system", "")))
    assert refusal.value.param == TURNS.get(client, "messages")


UNSAYABLE: dict[str, tuple[Protocol, Protocol, dict[str, Any]]] = {
    "blank": ("chat", "messages", message("chat", "user", " \n")),
    "blank by native-content": ("native", "messages", message("native", "user", " ")),
    "a video": (
        "chat",
        "messages",
        message(
            "chat", "user", [{"type": "video_url", "video_url": {"url": "https://a.example/v.mp4"}}]
        ),
    ),
    "an unknown part": ("chat", "native", message("chat", "user", [{"type": "telepathy"}])),
    "thinking without proof": ("chat", "messages", assistant("", reasoning_content="Hm.")),
    "thinking without proof to native-content": (
        "chat",
        "native",
        assistant(None, reasoning_content="Hm."),
    ),
}


@each("client, upstream, unsayable", UNSAYABLE.values())
def test_message_of_which_nothing_can_be_written_is_refused(
    client: Protocol, upstream: Protocol, unsayable: dict[str, Any]
) -> None:
    is_users = unsayable["role"] == "user"
    before = message(client, ASSISTANT[client] if is_users else "user", "A")
    with pytest.raises(InvalidRequest) as refusal:
        translated(client, upstream, request(client, before, unsayable))
    assert refusal.value.param is not None


@cases("upstream", "messages", "native")
def test_thought_that_is_no_part_of_a_message_is_left_out_alone(upstream: Protocol) -> None:
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    turns = [message("responses", "user", "A"), message("responses", "user", "B")]
    plain, _ = translated("responses", upstream, request("responses", *turns))
    turns.insert(1, thought)
    sent, dropped = translated("responses", upstream, request("responses", *turns))
    assert sent == plain
    assert "input.reasoning" in dropped


def test_thinking_alone_leaves_an_empty_turn_where_there_may_be_one() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    body = request(
        "messages",
        message("messages", "user", "A"),
        message("messages", "assistant", [thinking]),
        message("messages", "user", "B"),
    )
    sent, dropped = translated("messages", "chat", body)
    assert message_of("chat", sent) == [("user", "A"), ("assistant", ""), ("user", "B")]
    assert dropped == ["messages.thinking"]

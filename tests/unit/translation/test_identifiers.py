"""Names of tools and ids of calls that a target accepts."""

from typing import Any

from channels.dialects.table import CHAT_DIALECTS
from channels.json.lenient import dumps
from channels.translation.identifiers import IdentifierLimits, made_id
from channels.translation.model import Protocol
from channels.translation.paths import TRANSLATIONS
from channels.translation.session import TranslatedCall
from tests.support.rows import each
from tests.unit.translation.pieces import USER, assistant, call, calls, given, result, use, user
from tests.unit.translation.translated import metered, sse, stream_of, translated

LIMITS = IdentifierLimits(name_characters_max=16, id_characters_max=12)


def test_good_names_stay() -> None:
    assert LIMITS.name("get_weather-1") == "get_weather-1"
    assert LIMITS.call_id("call_1") == "call_1"


def test_bad_names_become_good_and_stay_apart() -> None:
    made = [LIMITS.name(name) for name in ("a.b", "a:b", "a_b", "é", "", "x" * 17, "x" * 18)]
    assert len(set(made)) == len(made)
    for name in made:
        assert 0 < len(name) <= 16
        assert name.isascii()
    assert LIMITS.name("a.b") == LIMITS.name("a.b")


def test_made_ids_depend_on_their_seeds_only() -> None:
    assert made_id("a", "1") == made_id("a", "1") != made_id("a1", "")
    assert len(made_id("a")) == 29


def test_ids_that_an_upstream_gives_in_each_turn_anew_are_another_calls_for_messages() -> None:
    def turn(*results: str) -> list[dict[str, Any]]:
        made = calls(*(call("f:0", name=name) for name in results))
        return [made, *(result("f:0", name) for name in results)]

    interrupted = [calls(call("f:0")), USER]
    body = {"messages": [USER, *turn("a"), *interrupted, *turn("b", "c")]}
    sent, _ = translated("chat", "messages", body)
    blocks = [
        block
        for one in sent["messages"]
        if isinstance(one["content"], list)
        for block in one["content"]
    ]
    made = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert len(set(made)) == len(made) == 4
    assert answered == [made[0], made[2], made[3]]


@each("client", [row.client for row in TRANSLATIONS.values() if row.upstream == "chat"])
def test_a_calls_id_that_the_conversation_has_already_is_another_for_the_client(
    client: Protocol,
) -> None:
    history = {
        "messages": [assistant([use("f:0")]), user([given("f:0", "1")])],
        "native": [
            {"role": "model", "parts": [{"functionCall": {"id": "f:0", "name": "f"}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "f:0", "name": "f"}}]},
        ],
        "responses": [
            {"type": "function_call", "call_id": "f:0", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "f:0", "output": "1"},
        ],
    }[client]
    member = {"messages": "messages", "native": "contents", "responses": "input"}[client]
    translation = TRANSLATIONS[client, "chat"]
    asked = TranslatedCall(translation, {"max_tokens": 9, member: history})
    stream, meter = stream_of(asked)
    delta = calls(call("f:0"), call("f:1"))
    chunk = {"choices": [{"index": 0, "delta": delta}]}
    for index, made in enumerate(delta["tool_calls"]):
        made["index"] = index
    stop = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    events = sse(chunk, stop, b"[DONE]")
    streamed = b"".join(stream.take_event(metered(meter, event)) for event in events)
    answer = {"choices": [{"message": calls(call("f:0"), call("f:1")), "finish_reason": "stop"}]}
    whole_meter = CHAT_DIALECTS["chat"].new_meter()
    read = whole_meter.take_body(dumps(answer))
    whole = asked.translate_response(read, whole_meter, id="a", created=1, model="m")
    for written in (streamed, whole):
        assert b'"f:0"' not in written
        assert b'"f:1"' in written
        assert made_id("f:0", "1").encode() in written

"""What a body calls its conversation, and what keeps one without a name together."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.conversation import METADATA_BYTES_MAX, NAME_CHARACTERS_MAX, PREFIX, conversation_of
from channels.dialects.table import CHAT_DIALECTS
from channels.json.json_object import JsonObject
from tests.support.rows import each

ALL = {
    "prompt_cache_key": "cache",
    "metadata": {"session_id": "session", "conversation_id": "dialogue", "user_id": "inside"},
    "user": "somebody",
}
REQUESTED = [{"role": "user", "content": "Mend the parser."}]
NAMED: list[tuple[dict[str, Any], str | None]] = [
    (ALL, "cache"),
    ({**ALL, "prompt_cache_key": ""}, "session"),
    ({**ALL, "prompt_cache_key": 7}, "session"),
    ({"metadata": {"conversation_id": "dialogue", "user_id": "inside"}}, "dialogue"),
    ({"metadata": {"user_id": "inside"}, "user": "somebody"}, "inside"),
    ({"metadata": {"user_id": ["no", "text"]}, "user": "somebody"}, "somebody"),
    ({"metadata": {"user_id": "x" * METADATA_BYTES_MAX}, "user": "somebody"}, "somebody"),
    ({"metadata": "no object", "user": "somebody"}, "somebody"),
    ({"user": "u" * 2 * NAME_CHARACTERS_MAX}, "u" * NAME_CHARACTERS_MAX),
    ({"model": "m"}, None),
]


def named(body: Any) -> str | None:
    return conversation_of(JsonObject.parse(json.dumps(body).encode()).raw)


def prefix(**members: Any) -> str:
    found = named(members)
    assert found is not None
    assert found.startswith(PREFIX)
    return found


@each("members, expected", NAMED)
def test_first_name_of_the_table_counts(members: dict[str, Any], expected: str | None) -> None:
    assert named(members) == expected


SYSTEM = {"role": "system", "content": "You write code. " * 200}  # longer than what is hashed
CHAT = {"messages": [SYSTEM, *REQUESTED], "tools": [{"type": "function"}]}
MESSAGES = {"messages": REQUESTED, "system": "You write code.", "tools": [{"name": "read"}]}
RESPONSES = {"input": REQUESTED, "instructions": "You write code.", "tools": [{"type": "custom"}]}
CONTENTS = [{"role": "user", "parts": [{"text": "Mend it."}]}]
NATIVE = {"contents": CONTENTS, "systemInstruction": {"parts": [{"text": "You write code."}]}}
TURNS = [(CHAT, "messages"), (MESSAGES, "messages"), (RESPONSES, "input"), (NATIVE, "contents")]


@each("body, member", TURNS)
def test_later_turns_change_nothing_and_the_beginning_does(
    body: dict[str, Any], member: str
) -> None:
    first = prefix(**body)
    later = [{"role": "assistant", "content": "x" * 300_000}, *REQUESTED]
    assert prefix(**{**body, member: [*body[member], *later]}) == first
    for name in body.keys() - {member}:
        assert prefix(**{**body, name: ["another"]}) != first
    text = json.dumps(body).replace("Mend", "Read")
    assert prefix(**json.loads(text)) != first


def test_moved_marks_of_a_cache_and_the_form_of_a_text_change_nothing() -> None:
    marked = {"type": "text", "text": "Mend the parser.", "cache_control": {"type": "ephemeral"}}
    plain = prefix(**MESSAGES)
    assert prefix(**{**MESSAGES, "messages": [{"role": "user", "content": [marked]}]}) == plain
    image = {"type": "image", "source": {"data": "AAAA"}}
    seen = [{"role": "user", "content": [image]}]
    again = [{"role": "user", "content": [{**image, "cache_control": {"type": "ephemeral"}}]}]
    assert prefix(messages=seen) == prefix(messages=again) != prefix(messages=REQUESTED)


def test_what_comes_after_long_instructions_is_found_and_what_is_too_long_is_not_read() -> None:
    def after(characters: int, requested: str) -> str:
        turns = [
            {"role": "system", "content": "s" * characters},
            {"role": "user", "content": requested},
        ]
        return prefix(messages=turns)

    assert after(100_000, "one") != after(100_000, "two")
    assert after(300_000, "one") == after(300_000, "two")
    long = "a" * 300_000
    assert prefix(messages=[{"role": "user", "content": long + "b"}]) == prefix(
        messages=[{"role": "user", "content": long + "c"}]
    )


BODIES: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", **CHAT, "tools": []},
    "messages": {"model": "m", "max_tokens": 1, **MESSAGES, "tools": []},
    "responses": {"model": "m", **RESPONSES, "tools": []},
    "native": NATIVE,
}


@each("protocol, named", [(protocol, name) for protocol in BODIES for name in (None, "session")])
def test_request_that_is_left_without_its_body_is_of_the_same_conversation(
    protocol: str, named: str | None
) -> None:
    dialect = CHAT_DIALECTS[protocol]
    body = {**BODIES[protocol], **({"prompt_cache_key": named} if named else {})}
    path = {"model": "m", "stream": False} if protocol == "native" else {}
    request = dialect.read_request(json.dumps(body).encode(), **path)
    left = dialect.without_body(request).object
    assert (left.body, len(left.raw)) == (b"{}", 1)
    assert conversation_of(left.raw) == conversation_of(request.object.raw)
    assert named is None or conversation_of(left.raw) == named


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("role"), inner),
)
MEMBERS = ("prompt_cache_key", "metadata", "user", "system", "tools", "messages", "input")


@given(st.dictionaries(st.sampled_from(MEMBERS), ANYTHING))
def test_any_values_are_read_alike_each_time(body: dict[str, Any]) -> None:
    found = named(body)
    assert found == named(body)
    assert found is not None or not {"messages", "input"} & body.keys()


def test_nesting_and_numbers_without_end_are_read() -> None:
    deep = b"[" * 900 + b"]" * 900
    digits = b"9" * 100_000
    for value in (deep, b"[%b]" % digits, b'[{"content":[%b],"role":"user"}]' % digits):
        raw = JsonObject.parse(b'{"messages":%b}' % value).raw
        assert (conversation_of(raw) or "").startswith(PREFIX)

"""What follows from the declaration of a member: words, lenient twin, canonical field."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects.chat.members import TranslatedChat
from channels.dialects.gemini.members import TranslatedConfig, TranslatedGemini
from channels.dialects.lenient_twin import twin_of
from channels.dialects.member import NOT_NEEDED, member
from channels.dialects.member_words import words_of
from channels.dialects.messages.members import TranslatedMessages
from channels.dialects.responses.members import TranslatedResponses
from channels.dialects.same_fields import names_of, read_fields, write_fields
from channels.translation.body_members import Members
from tests.support.rows import each


class _Part(Struct):
    kind: Literal["a", "b"]
    text: Annotated[str, NOT_NEEDED]


class _Turn(Struct, tag_field="role"):
    parts: Annotated[str | list[_Part] | None, member(of="parts", lenient=str | list[Raw])]


class _Asking(_Turn, tag="user"):
    pass


class _Replying(_Turn, tag="model"):
    pass


class _Body(Struct, rename="camel"):
    turns: Annotated[list[_Asking | _Replying], Meta(min_length=1), member(of="turns", each="x")]
    kind: Annotated[str, member(examples=["one", "two"], lenient=str | None, may_lack=True)]
    some_number: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None, member("A number.", field="temperature")
    ] = None
    count: Annotated[Annotated[int, Meta(ge=1, le=9)] | UnsetType, NOT_NEEDED] = UNSET
    anything: Any = None
    texts: Annotated[list[str] | None, member(field="stop")] = None
    part: _Part | None = None


class _Canonical(Struct):
    temperature: float | None
    stop: tuple[str, ...]


def test_words_follow_from_the_types() -> None:
    assert words_of(_Body) == {
        "turns": "a non-empty array of turns",
        "turns[]": "x",
        "turns[].role": "one of user, model",
        "turns[].parts": "a string, an array of parts or null",
        "turns[].parts[]": "an object with kind and text",
        "turns[].parts[].kind": "one of a, b",
        "turns[].parts[].text": "a string",
        "kind": "a string such as one or two",
        "someNumber": "a number from 0 to 2",
        "count": "an integer from 1 to 9",
        "texts": "an array of strings",
        "texts[]": "a string",
        "part": "an object with kind and text",
        "part.kind": "one of a, b",
        "part.text": "a string",
    }


def test_twin_reads_what_is_needed_and_has_the_defaults_of_the_rest() -> None:
    body = b'{"turns":[{"role":"user","parts":[1]}],"count":"no","part":{"kind":"a","text":0}}'
    read = msgspec.json.decode(body, type=twin_of(_Body))
    (turn,) = read.turns
    assert [bytes(part) for part in turn.parts or ()] == [b"1"]
    assert (read.kind, read.count, read.texts) == (None, UNSET, None)
    assert read.part is not None
    assert (read.part.kind, read.part.text) == ("a", UNSET)


def test_members_with_the_same_value_go_both_ways() -> None:
    stated = {"someNumber": 1, "texts": ["a"]}
    fields = read_fields(Members(stated), _Body)
    assert fields == {"temperature": 1, "stop": ("a",)}
    written: dict[str, Any] = {}
    write_fields(_Canonical(**fields), _Body, written)
    assert written == stated
    assert names_of(_Body) == {"temperature": "someNumber", "stop": "texts"}


@each(
    "body",
    [TranslatedChat, TranslatedMessages, TranslatedResponses, TranslatedGemini, TranslatedConfig],
)
def test_every_member_that_is_read_has_a_line_for_the_reference(body: type[Struct]) -> None:
    _, components = msgspec.json.schema_components([body])
    members = components[body.__name__]["properties"]
    assert [name for name, one in members.items() if "description" not in one] == []

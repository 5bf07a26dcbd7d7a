"""The small parts the codecs share: the report, names and ids, data URIs, calls, failures."""

import base64
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.chat.members import ORIGIN as CHAT
from channels.dialects.chat.strict_schemas import fits_strict
from channels.dialects.gemini.members import ORIGIN as GEMINI
from channels.dialects.messages.members import ORIGIN as MESSAGES
from channels.errors import InvalidRequest
from channels.json.lenient import dumps, read_json
from channels.translation.body_members import Members
from channels.translation.call_arguments import (
    Arguments,
    WaitingArguments,
    arguments_object,
    object_in,
)
from channels.translation.error_names import OTHER, RATE_LIMITED, failure_named
from channels.translation.identifiers import IdentifierLimits, made_id
from channels.translation.losses import LossReport, report_members, spelled
from channels.translation.media import data_uri, markdown, read_data_uri, stated_type, text_of
from channels.translation.model import Media, Request, Text, ToolResult, Turn
from channels.translation.open_calls import OpenCalls
from channels.translation.signatures import opened, sealed
from channels.translation.turns import merged
from tests.support.rows import cases

# --- The report ---


def test_field_is_listed_once_in_order() -> None:
    report = LossReport()
    for field in ("n", "seed", "n"):
        report.drop(field)
    assert report.dropped == ["n", "seed"]
    assert report.warning() == "n; seed"


def test_nothing_dropped_is_no_warning() -> None:
    assert LossReport().warning() is None


def test_name_can_not_break_the_header() -> None:
    report = LossReport()
    report.drop("a\r\nSet-Cookie: x; é")
    report.drop("x" * 500)
    first, second = report.dropped
    assert first == "a__Set-Cookie__x___"
    assert len(second) == 80


def test_very_many_names_are_counted() -> None:
    report = LossReport()
    for number in range(45):
        report.drop(f"f{number}")
    warning = report.warning()
    assert warning is not None
    assert warning.endswith("f39; 5 more")


def test_neutral_and_null_members_lose_nothing() -> None:
    report = LossReport()
    extras: dict[str, Any] = {"store": False, "logprobs": None, "top_logprobs": 2, "x": 0}
    report_members(Request(origin=CHAT, extras=extras), report, carried=["x"])
    assert report.dropped == ["top_logprobs"]


def test_canonical_fields_are_spelled_as_the_client_does() -> None:
    assert spelled(CHAT, "count") == "n"
    assert spelled(MESSAGES, "stop") == "stop_sequences"
    assert spelled(GEMINI, "temperature") == "generationConfig.temperature"
    assert spelled(CHAT, "temperature") == "temperature"


# --- Names and ids ---

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


# --- Data URIs ---

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 20).decode()
WEBP = base64.b64encode(b"RIFF1234WEBPVP8 ").decode()


@cases(
    "uri, expected",
    (f"data:image/png;base64,{PNG}", ("image/png", PNG)),
    (f"DATA:image/jpg;charset=x;BASE64,{PNG}", ("image/png", PNG)),
    (f"data:image/jpeg;base64,{WEBP}", ("image/webp", WEBP)),
    ("data:image/JPG;base64,AAAA", ("image/jpeg", "AAAA")),
    ("data:image/png;base64,AA%3D%3D", ("image/png", "AA==")),
    ("data:image/png;base64,AA\n AA", ("image/png", "AAAA")),
    ("data:text/plain,a%20b", ("text/plain", "YSBi")),
    ("data:,x", (None, "eA==")),
    ("data:oops", None),
    ("https://a.example/x.png", None),
    ("", None),
)
def test_data_uri_is_read(uri: str, expected: tuple[str | None, str] | None) -> None:
    assert read_data_uri(uri) == expected


def test_parameters_of_a_data_uri_are_stepped_over() -> None:
    uri = f"data:image/png{';a' * 500_000};base64,AAAA"
    tracemalloc.start()
    assert read_data_uri(uri) == ("image/png", "AAAA")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * len(uri)


def test_type_is_what_the_bytes_say_where_they_do() -> None:
    assert stated_type("image/gif", PNG) == "image/png"
    assert stated_type("application/x-thing", "AAAA") == "application/x-thing"
    assert stated_type(None, "AAAA") is None
    assert stated_type("image/png", "!") == "image/png"


def test_media_are_written_as_links() -> None:
    inline = Media("image", "image/png", data="AA==")
    assert data_uri(inline) == "data:image/png;base64,AA=="
    assert markdown(inline) == "![image](data:image/png;base64,AA==)"
    assert markdown(Media("audio", None, url="https://a", name="n")) == "[n](https://a)"


def test_base64_that_is_no_text_is_none() -> None:
    assert text_of("aGk=") == "hi"
    assert text_of("/w==") is None
    assert text_of("?") is None


# --- The rest ---


def test_own_signature_travels_bare_and_a_foreign_one_tagged() -> None:
    assert sealed("s", "messages", own="messages") == "s"
    assert sealed("s", None, own="messages") == "s"
    assert opened("s", own="messages") == ("s", "messages")
    tagged = sealed("a:b", "native", own="messages")
    assert tagged == "translated:native:a:b"
    assert opened(tagged, own="messages") == ("a:b", "native")
    for odd in ("translated:", "translated:nobody:s", "translated:native"):
        assert opened(odd, own="messages") == (odd, "messages")


def test_failures_are_known_by_any_dialects_word() -> None:
    for word in ("rate_limit_error", "RESOURCE_EXHAUSTED", "429"):
        assert failure_named(word) is RATE_LIMITED
    assert failure_named("a word to come") is OTHER
    assert failure_named(None) is OTHER


def test_arguments_are_an_object_whatever_they_are() -> None:
    assert arguments_object('{"a": 1}') == {"a": 1}
    assert arguments_object("  ") == {}
    for text in ("[1]", "{", "7", '"x"', "null" + " " * 20 + "x"):
        assert arguments_object(text) == {"raw_arguments": text}
    assert object_in('{"a": "\\ud83d"}') == {"a": "\ud83d"}
    assert object_in("[" * 100_000) is None


def test_JSON_is_read_and_written_forgivingly() -> None:
    assert read_json(b'{"a": 1e400}') == {"a": float("inf")}
    assert read_json(b"\xff") is None
    assert dumps({"a": "é"}) == '{"a":"é"}'.encode()
    assert dumps({"a": "\ud83dé"}) == b'{"a":"\\ud83d\\u00e9"}'


@cases(
    "schema, expected",
    ({"type": "string"}, True),
    ({"type": "object", "properties": {}, "additionalProperties": False}, True),
    ({"type": "object", "properties": {}}, False),
    ({"type": ["object", "null"], "properties": {"a": {}}, "additionalProperties": False}, False),
    ({"type": "array", "items": {"type": "object"}}, False),
    ({"anyOf": [{"type": "object"}]}, False),
    ({"$defs": {"x": {"type": "object"}}}, False),
    (None, False),
)
def test_schema_is_strict_where_every_object_is_closed(schema: Any, expected: bool) -> None:
    assert fits_strict(schema) is expected


def test_turns_merge_and_results_come_first() -> None:
    one, two = Text("1"), Text("2")
    result = ToolResult("c", None, ())
    turns = merged(
        [
            Turn("user", (one,), "ada"),
            Turn("assistant", ()),
            Turn("user", (result,), "ada"),
            Turn("user", (two,)),
            Turn("assistant", (one,)),
        ]
    )
    assert turns == (Turn("user", (result, one, two)), Turn("assistant", (one,)))
    assert merged([Turn("user", (one,), "ada"), Turn("user", (two,), "ada")])[0].name == "ada"


def test_members_are_read_by_type_and_the_rest_is_left() -> None:
    members = Members({"a": 1, "b": None, "c": {"d": [{"e": True}]}, "f": 2.0, "g": "x"})
    assert members.number("a") == 1
    assert members.text("b") is None
    assert members.integer("f") == 2
    inner = members.object("c")
    assert inner is not None
    (item,) = inner.objects("d")
    assert item.boolean("e") is True
    assert item.location == "c.d[0]"
    assert members.rest() == {"g": "x"}


@cases(
    "reader, value",
    ("text", 1),
    ("number", "1"),
    ("number", True),
    ("integer", 1.5),
    ("boolean", 1),
    ("array", {}),
    ("object", []),
    ("mapping", "x"),
)
def test_member_of_a_wrong_type_is_named(reader: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"place\.x: expected ") as raised:
        getattr(Members({"x": value}, "place"), reader)("x")
    assert raised.value.param == "place.x"


def test_array_of_objects_holds_nothing_else() -> None:
    with pytest.raises(InvalidRequest) as raised:
        Members({"x": [{}, 1]}).objects("x")
    assert raised.value.param == "x[1]"


# --- Which call a result without an id belongs to ---


def test_oldest_open_call_of_a_name_or_of_any_is_found() -> None:
    calls = OpenCalls()
    for name, call_id in (("f", "1"), ("g", "2"), ("f", "3")):
        calls.add(name, call_id)
    assert (calls.oldest(), calls.oldest("f"), calls.oldest("g")) == ("1", "1", "2")
    calls.resolve("1")
    assert (calls.oldest(), calls.oldest("f"), calls.oldest("h")) == ("2", "3", None)
    calls.resolve("unknown")
    calls.resolve("2")
    calls.resolve("3")
    assert calls.oldest() is None
    assert repr(calls) == "<OpenCalls 0>"


def test_calls_of_one_id_are_answered_together_or_by_their_name() -> None:
    calls = OpenCalls()
    for name in ("f", "g", "f"):
        calls.add(name, "x")
    calls.resolve_named("f", "x")
    assert (calls.oldest("f"), calls.oldest("g")) == ("x", "x")
    calls.resolve_named("f", "x")
    calls.resolve_named("f", "x")  # there is no third
    assert (calls.oldest("f"), calls.oldest("g")) == (None, "x")
    calls.add("h", "x")
    calls.resolve("x")
    assert calls.oldest() is None


# --- When the pieces of a call's arguments are an object, wherever they are cut ---

TEXTS = [
    "{}",
    ' {"a": [1, {"b": "}"}], "c\\"}": "\\\\"} ',
    '{"a": "\\u00e9{"}',
    "[1]",
    '{"a": 1}}',
    "{} x",
    '"{}"',
    "x{}",
    '{"a": {"b": 1}',
    "}",
]


@pytest.mark.parametrize("text", TEXTS)
@given(cuts=st.lists(st.integers(0, 40), max_size=6))
def test_whole_wherever_they_are_cut(text: str, cuts: list[int]) -> None:
    arguments = Arguments()
    ends = [*sorted(cut for cut in cuts if cut < len(text)), len(text)]
    for start, end in zip([0, *ends], ends, strict=False):
        arguments.add(text[start:end])
        arguments.is_whole()
    assert arguments.is_whole() == (object_in(text) is not None)
    assert arguments.text() == text


def test_nothing_is_not_whole() -> None:
    arguments = Arguments()
    arguments.add("")
    assert not arguments.is_whole()


def test_arguments_wait_while_they_may_be_none() -> None:
    waiting = WaitingArguments()
    assert not waiting
    for piece in (" nu", "ll"):
        waiting.add(piece)
        assert waiting.take() is None
    waiting.add("x")
    assert waiting.take() == " nullx"
    assert not waiting

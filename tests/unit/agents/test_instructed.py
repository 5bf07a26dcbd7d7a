"""The call of an agent: its body, its frame, its models, its collected stream."""

import json
import re
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.chat.instructed import (
    DROPPED,
    Instructions,
    compact_size,
    instructed_at_once,
    instructed_body,
    instructed_job,
    read_instructed,
    read_turn,
    turn_job,
)
from channels.errors import InvalidRequest, UpstreamMalformed
from channels.registry import Registry
from gw.agents.excerpts import NOTICE, Excerpt, cut, framed
from gw.agents.permission import AgentRefused, model_of
from gw.api.chat.collecting_writer import CollectingWriter
from gw.api.response_writer import HandlerWriter
from gw.calls.chat import TIMED_OUT
from gw.errors import GatewayError
from gw.keys.principal import Agent
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model

GIVEN = Instructions(model="m", persona=b'"Be brief."')
ME = {"role": "system", "content": "Be brief."}


def body_of(*contents: Any, **members: Any) -> bytes:
    messages = [{"role": "user", "content": content} for content in contents]
    return json.dumps({"messages": messages, **members}).encode()


def made(body: bytes, **given: Any) -> Any:
    return json.loads(instructed_body(body, msgspec.structs.replace(GIVEN, **given)))


def test_the_clients_bytes_stay_as_they_are() -> None:
    odd = b'{"role" :"user","content":"\\u00e9\\/", "x":1.50e0, "big":123456789012345678901}'
    body = b'{"seed":1.0, "messages": [ %b ] ,"top_p":0.10}' % odd
    for reading in ("", "R"):
        given = msgspec.structs.replace(GIVEN, reading=reading)
        written = instructed_body(body, given)
        assert odd in written
        assert b'"seed":1.0,' in written
        assert b'"top_p":0.10' in written


@given(
    st.text(max_size=30),
    st.lists(st.sampled_from(["user", "assistant", "system"]), min_size=1, max_size=6),
)
def test_what_is_read_stands_before_the_latest_question(text: str, roles: list[str]) -> None:
    messages = [{"role": role, "content": f"{text}{n}"} for n, role in enumerate(roles)]
    body = json.dumps({"messages": messages}).encode()
    turn = read_turn(body, text_characters=2000)
    if "user" not in roles:
        assert turn.text == ""
        assert made(body)["messages"] == [ME, *messages]
        return
    at = len(roles) - 1 - roles[::-1].index("user")
    assert turn.text == messages[at]["content"]
    reading = {"role": "user", "content": "R"}
    sent = made(body, reading="R")["messages"]
    assert sent == [ME, *messages[:at], reading, *messages[at:]]


def test_members_that_choose_for_the_gateway_are_dropped_in_any_case() -> None:
    members: dict[str, Any] = {name.upper(): [] for name in DROPPED}
    written = made(body_of("Hi", temperature=None, seed=1, **members, **dict.fromkeys(DROPPED, 1)))
    assert written.keys() == {"model", "messages", "seed"}


@cases("name", "Model", "MESSAGES", "Tools", "Temperature", "STREAM")
def test_what_only_looks_like_a_member_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="did you mean"):
        read_turn(body_of("Hi", **{name: "x"}), text_characters=0)


@cases(
    "content, text",
    ("abc", "abc"),
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
    ([{"type": "text"}, {"type": "text", "text": 5}, {"text": "x"}, {"type": "o"}], ""),
    ([5, {"type": "text", "text": "a"}], "a"),
    (None, ""),
    ("é" * 9000, "é" * 2000),
    ([{"type": "text", "text": "x" * 1999}, {"type": "text", "text": "yz"}], "x" * 1999 + "\n"),
)
def test_the_question_is_the_text_of_the_latest_user_message(content: Any, text: str) -> None:
    assert read_turn(body_of("before", content), text_characters=2000).text == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    ),
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
)
def test_the_conversation_counts_as_compact_utf8(value: Any, is_ascii: bool, indent: Any) -> None:
    compact = json.dumps([value], ensure_ascii=False, separators=(",", ":"))
    written = json.dumps([value], ensure_ascii=is_ascii, indent=indent)
    assert compact_size(written.encode()) == len(compact.encode())


def test_a_body_is_made_alike_in_another_process() -> None:
    body = body_of([{"type": "image_url"}], "Hi", tools=[], stream=False)
    assert turn_job(body, 9) == (read_turn(body, text_characters=9), None)
    given = Instructions(
        model="m", persona=b'"p"', reading="R", temperature=0.5, tools=("t",), is_collected=True
    )
    request, written = instructed_job(body, given)
    assert written == instructed_body(body, given)
    whole = read_instructed(written)
    assert (request.content_bytes, request.stream) == (whole.content_bytes, True)
    assert request.object.body == b"{}"
    assert (whole.builtin_tools, whole.include_usage) == (("t",), True)


USUAL = [
    body_of("Hi"),
    body_of("Hi", stream=True, seed=1, stream_options={"include_usage": True}, temperature=None),
    body_of("Hi", [{"type": "text", "text": "x"}], model=5, max_tokens=3),
]
UNUSUAL = [
    b"{",
    b"[]",
    body_of(),
    body_of("\u00e9"),
    body_of([{"type": "image_url"}]),
    body_of([{"type": 5}]),
    body_of("Hi", tools=[]),
    body_of("Hi", Session_ID=1),
    body_of("Hi", temperature=3),
    body_of("Hi", max_tokens=1, max_completion_tokens=2),
]


@cases("temperature", None, 0.5)
def test_a_usual_body_is_made_at_once_as_it_is_in_steps(temperature: float | None) -> None:
    given = msgspec.structs.replace(GIVEN, temperature=temperature)
    for body in USUAL:
        read_turn(body, text_characters=0)
        found = instructed_at_once(body, given)
        assert found is not None
        request, written = found
        assert written == instructed_body(body, given)
        whole = read_instructed(written)
        assert request.object.body == whole.object.body
        assert request.content_bytes == whole.content_bytes
    for body in UNUSUAL:
        assert instructed_at_once(body, given) is None


def test_what_an_upstream_may_judge_is_named_as_the_client_named_it() -> None:
    body = body_of("Hi", [{"type": 5}], tools=[{"type": "function"}])
    fault = read_turn(body, text_characters=0).fault
    assert fault is not None
    assert fault.param == "messages[1].content[0].type"
    assert read_turn(body_of("Hi", tools=[{}]), text_characters=0).fault is None


# --- A stream as one response ---


class Sent:
    """What the client gets."""

    def __init__(self) -> None:
        self.head: tuple[Any, ...] = ()
        self.body: Any = None

    def begin(self, *head: Any) -> None:
        self.head = head

    def send(self, body: bytes) -> None:
        self.body = json.loads(body)


def collected(*chunks: Any, is_done: bool = True, bytes_max: int = 10_000) -> Sent:
    """The response that some chunks come to, in pieces that are cut anywhere."""
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    stream = (": still here\n\n" + text + ("data: [DONE]\n\n" if is_done else "")).encode()
    sent = Sent()
    writer = CollectingWriter(cast(HandlerWriter, sent), bytes_max=bytes_max)
    writer.begin("text/event-stream", {"X-A": "1"})
    middle = len(stream) // 3
    writer.write(stream[:middle])
    writer.write(stream[middle : 2 * middle])
    writer.finish(stream[2 * middle :])
    writer.deliver()
    return sent


def chunk(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}


def test_pieces_become_one_message_for_each_choice() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    sent = collected(
        chunk(role="assistant", content=""),
        chunk(content="one "),
        chunk(1, content="other"),
        chunk(content="two", annotations=[{"a": 1}]),
        chunk(annotations=[{"b": 2}], refusal=None),
        chunk(finish="stop"),
        chunk(1, finish="length"),
        {"id": "c", "model": "m", "choices": [], "usage": usage},
    )
    assert sent.head == ("application/json", {"X-A": "1"})
    annotated = {"content": "one two", "annotations": [{"a": 1}, {"b": 2}], "role": "assistant"}
    assert sent.body == {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "usage": usage,
        "choices": [
            {"index": 0, "message": annotated, "finish_reason": "stop"},
            {
                "index": 1,
                "message": {"content": "other", "role": "assistant"},
                "finish_reason": "length",
            },
        ],
    }


@cases(
    "chunks, is_done, status, code",
    ([chunk(content="x")], False, 502, "upstream_error"),
    ([chunk(content="x"), {"error": {"message": "No."}}], True, 502, "upstream_error"),
    ([{"error": {"message": TIMED_OUT}}], True, 504, "upstream_timeout"),
)
def test_a_failed_stream_is_an_error(chunks: Any, is_done: bool, status: int, code: str) -> None:
    with pytest.raises(GatewayError) as caught:
        collected(*chunks, is_done=is_done)
    assert (caught.value.http_status, caught.value.kind.code) == (status, code)


def test_a_stream_that_is_too_large_fails_where_it_is() -> None:
    with pytest.raises(UpstreamMalformed):
        collected(*[chunk(content="x" * 90)] * 100, bytes_max=1000)


# --- The frame of pages, whatever pages say ---

TAGS = ("<reference_data", "</reference_data", "<page", "</page")
PIECES = (
    *TAGS,
    *"<>/\"'&; \n\t",
    "reference_data",
    "page",
    "PAGE",
    "\u200b",
    "\u00ad",
    "id=",
    "&lt;",
    "x",
    "知",
)
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
_UNSEEN = re.compile("[\u200b\u00ad]")


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_page_closes_the_frame_or_opens_another(
    kb_id: str, page_id: str, title: str, body: str
) -> None:
    page = Excerpt(kb_id, page_id, title, body)
    text = framed([page, Excerpt("kb", "id", "t", "plain")])
    assert text.startswith(f'<reference_data>\n{NOTICE}\n<page id="')
    assert text.endswith("\nplain\n</page>\n</reference_data>")
    seen = _UNSEEN.sub("", text).casefold()
    tags = re.findall(r"<\s*/?\s*(?:reference_data|page)(?![a-z0-9])", seen)
    assert ["".join(tag.split()) for tag in tags] == [
        "<reference_data",
        "<page",
        "</page",
        "<page",
        "</page",
        "</reference_data",
    ]
    quotes = text.partition("\nplain")[0].count('"')
    assert quotes - body.count('"') == 12  # those of the attributes, and no more


@cases("text", "a < b, <b>, <pages>, <pagex", "page>", "< p a g", "<reference>", "&lt;page")
def test_what_is_no_tag_of_the_frame_stays_as_it_is(text: str) -> None:
    assert f"\n{text}\n</page>" in framed([Excerpt("k", "i", "t", text)])


def test_pages_are_cut_to_a_length_together() -> None:
    pages = [Excerpt("k", name, name, "x" * 10) for name in "abc"]
    assert [len(page.body) for page in cut(pages, 100)] == [10, 10, 10]
    assert [len(page.body) for page in cut(pages, 15)] == [10, 5]
    assert [page.id for page in cut(pages, 10)] == ["a"]
    empty = [Excerpt("k", "e", "e", ""), *pages]
    assert [page.id for page in cut(empty, 1)] == ["e", "a"]


def test_long_pages_are_escaped_in_time_that_grows_with_them() -> None:
    # What would go back and forth over them takes minutes for these.
    for piece in ("< ", "<\u200b", "<p\u200b", "</" + " " * 50, "<"):
        framed([Excerpt("k", "i", "t", piece * 100_000)])


# --- Which model an agent calls, and who may not ---

REGISTRY = Registry.of(
    [make_channel("a")],
    [
        make_model("a", id="own", aliases=("latest",)),
        make_model("a", id="theirs"),
        make_model("a", id="ours"),
        make_model("a", id="soon", callable=False),
        make_model("a", id="picture", endpoint_type="images_generations"),
    ],
)


def agent(**changes: Any) -> Agent:
    values: dict[str, Any] = {
        "id": "agent_1",
        "user": "owner",
        "system_prompt": b'"p"',
        "model": "own",
        "temperature": None,
        "web_search": False,
        "image_generation": False,
        "kbs": (),
        "enabled": True,
        "default_model": "theirs",
        "allowed_models": None,
    }
    return Agent(**{**values, **changes})


@cases(
    "changes, platform, model",
    ({}, "ours", "own"),
    ({"model": "latest"}, "", "own"),
    ({"model": None}, "ours", "theirs"),
    ({"model": None, "default_model": None}, "ours", "ours"),
    ({"allowed_models": frozenset({"own"})}, "", "own"),
    ({"allowed_models": frozenset({"latest"})}, "", "own"),
)
def test_the_first_model_that_is_set_is_called(changes: Any, platform: str, model: str) -> None:
    assert model_of(agent(**changes), REGISTRY, platform).id == model


@cases(
    "changes, outcome",
    ({"enabled": False, "model": "gone"}, "disabled"),
    ({"model": None, "default_model": None}, "no_model"),
    ({"model": "gone"}, "no_model"),  # and no other in its stead
    ({"model": "soon"}, "no_model"),
    ({"model": "picture"}, "no_model"),
    ({"allowed_models": frozenset()}, "not_allowed"),
    ({"allowed_models": frozenset({"theirs"})}, "not_allowed"),
)
def test_an_agent_is_refused(changes: Any, outcome: str) -> None:
    with pytest.raises(AgentRefused) as caught:
        model_of(agent(**changes), REGISTRY, "")
    assert caught.value.outcome == outcome


def test_a_key_without_an_agent_calls_nothing() -> None:
    with pytest.raises(AgentRefused) as caught:
        model_of(None, REGISTRY, "ours")
    assert caught.value.outcome == "disabled"

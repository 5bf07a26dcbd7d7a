"""What a stream's client is sent: the upstream's own bytes, whole events, and nothing made up.

Spec: Events, Stream failure behaviour; contract §5: the usage chunk. The wire's splitter has its
own tests, cut at every byte, in `tests/unit/channels`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.client import HELLO, Reply, chat_body
from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.scripted_upstream import ScriptedUpstream, scripted_upstream
from tests.support.tenants import Tenant

ASKED: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 500,
}
TEXT = 'Grüße, 世界! 🌍🏳️‍🌈 \u2028 and "quotes" \\ too'
HELLO_TOKENS = -(-len(json.dumps([HELLO], separators=(",", ":"))) // 4)


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedUpstream]:
    with scripted_upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, scripted: ScriptedUpstream) -> Iterator[House]:
    settings: dict[str, Any] = {
        "channels": [
            *(channel(name, priority=n) for n, name in enumerate(("one", "two", "three"), 1)),
            channel("scripted", base_url=scripted.url),
        ],
        "models": [model("sim-model", "one", "two", "three"), model("scripted", "scripted")],
    }
    with shared_house(postgres, **settings) as built:
        yield built


def upstreams_own(h: House, sim: dict[str, Any]) -> bytes:
    """What the simulator answers to the very body that the gateway forwards."""
    body = chat_body(**ASKED, sim=sim)
    return h.upstream.answer(json.dumps(body, separators=(",", ":")).encode())


FAITHFUL = {
    "ordinary": {},
    "text of every kind": {"text": TEXT, "chars_per_event": 1},
    "every byte by itself": {"text": TEXT, "chars_per_event": 3, "split_bytes": 1},
    "cut in the middle of characters": {"text": TEXT * 20, "split_bytes": 7},
    "CRLF": {"text": TEXT, "crlf": True},
    "CRLF, cut between": {"text": TEXT, "crlf": True, "split_bytes": 3},
    "tool calls": {"tool_calls": [{"name": "f", "arguments": {"text": TEXT * 5}}]},
    "thinking": {"reasoning_text": TEXT * 3, "text": TEXT},
    "one event of a megabyte": {"huge": 1_000_000},
    "a thousand events": {"events": 1_000},
    "another finish": {"finish_reason": "content_filter"},
    "an error event": {"events": 9, "error_event": 4, "message": "It fell over."},
    "an error event last": {"events": 3, "error_event": 4},
    "no usage": {"no_usage": True},
    "broken JSON in an event": {"malformed": "json"},
    "no UTF-8 in an event": {"malformed": "utf8"},
}


@pytest.mark.parametrize("sim", FAITHFUL.values(), ids=FAITHFUL)
def test_stream_is_the_upstreams_byte_for_byte(
    h: House, tenant: Tenant, sim: dict[str, Any]
) -> None:
    reply = tenant.client.chat(**ASKED, sim=sim)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.body == upstreams_own(h, sim)
    assert h.upstream.requested("two") == [0]


@pytest.mark.parametrize("sim", [{}, {"text": TEXT, "crlf": True, "split_bytes": 5}])
def test_usage_chunk_is_all_that_is_withheld(h: House, tenant: Tenant, sim: dict[str, Any]) -> None:
    body = chat_body(stream=True, max_tokens=500, sim=sim)
    whole = h.upstream.answer(
        json.dumps(
            {**body, "stream_options": {"include_usage": True}}, separators=(",", ":")
        ).encode()
    )
    mark = b"\r\n\r\n" if sim else b"\n\n"
    events = whole.split(mark)
    (usage,) = [event for event in events if b'"choices":[]' in event]
    reply = tenant.client.chat(**body)
    assert reply.body == whole.replace(usage + mark, b"")
    assert (usage and reply.is_complete) or sim


def assert_is_cut(h: House, tenant: Tenant, reply: Reply, whole: bytes, events: int) -> None:
    """So many events came through whole, nothing after them, and they are paid for."""
    marks = whole.split(b"\n\n")
    assert reply.status == 200
    assert reply.body == b"".join(mark + b"\n\n" for mark in marks[:events])
    assert b"[DONE]" not in reply.body
    assert b'"finish_reason":"' not in reply.body
    assert b'"error"' not in reply.body
    output_tokens = -(-len(reply.text) // 4)
    cost = (HELLO_TOKENS * 1_000 + output_tokens * 10_000) if reply.text else 0
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"], row["cost_nano_usd"]) == (
        "error",
        "upstream_error",
        cost,
    )
    assert tenant.client.remaining_nano_usd() == 10**9 - cost
    assert h.upstream.requested("one", "two") == [2, 0]


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("events", [1, 2, 6])
def test_cut_stream_ends_early_and_nothing_is_made_up(
    h: House, tenant: Tenant, events: int, how: str
) -> None:
    sim = {"events": 12, "chars_per_event": 9}
    whole = upstreams_own(h, sim)
    h.upstream.fault("one", cut_after_events=events, cut=how)
    reply = tenant.client.chat(**ASKED, sim=sim)
    assert_is_cut(h, tenant, reply, whole, events)


def test_event_that_was_cut_in_the_middle_is_not_passed_on(h: House, tenant: Tenant) -> None:
    sim = {"events": 12}
    whole = upstreams_own(h, sim)
    in_the_fourth = sum(len(event) + 2 for event in whole.split(b"\n\n")[:3]) + 40
    h.upstream.fault("one", cut_after_bytes=in_the_fourth)
    reply = tenant.client.chat(**ASKED, sim=sim)
    assert_is_cut(h, tenant, reply, whole, 3)


def test_stream_without_its_terminator_is_a_failed_one(h: House, tenant: Tenant) -> None:
    """Its usage came, though, so that is what is charged."""
    sim = {"no_done": True, "usage": {"input": 5, "output": 6}}
    reply = tenant.client.chat(**ASKED, sim=sim)
    assert reply.body == upstreams_own(h, sim)
    assert not reply.is_complete
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"]) == ("error", "upstream_error")
    assert row["cost_nano_usd"] == 5 * 1_000 + 6 * 10_000


def test_error_event_is_a_failed_call_that_pays_for_what_came(h: House, tenant: Tenant) -> None:
    reply = tenant.client.chat(**ASKED, sim={"events": 9, "error_event": 4})
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"]) == ("error", "upstream_error")
    assert row["cost_nano_usd"] == HELLO_TOKENS * 1_000 + row["output_tokens"] * 10_000
    assert row["output_tokens"] == 4  # four events: the role, and three of five characters


def test_error_instead_of_an_answer_costs_nothing(h: House, tenant: Tenant) -> None:
    first = tenant.client.chat(**ASKED, sim={"error_event": 0, "message": "No."})
    assert first.body == upstreams_own(h, {"error_event": 0, "message": "No."})
    plain = tenant.client.chat(sim={"status": 200, "body": {"error": {"message": "No."}}})
    assert plain.refusal == (502, "api_error", "upstream_error")
    assert plain.json["error"]["message"] == "No."
    for reply in (first, plain):
        row = h.row(reply.trace)
        assert (row["status"], row["error_code"], row["cost_nano_usd"]) == (
            "error",
            "upstream_error",
            0,
        )
    assert tenant.client.remaining_nano_usd() == 10**9


def test_stream_ends_with_its_terminator_though_the_upstream_lingers(
    h: House, tenant: Tenant
) -> None:
    # Role, text, finish, usage, terminator; and then nothing, for ever.
    with tenant.client.begin_chat(**ASKED, sim={"text": "abc", "hang": 5}) as call:
        reply = call.reply()
        assert reply.is_complete
        assert h.upstream.stats()["active"] <= 1
    assert h.row(reply.trace)["status"] == "success"
    h.upstream.wait(cancelled=1, active=0)


CHUNK = (
    b'{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}'
)
USAGE = b'{"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":8}}'
ODD: dict[str, Sequence[bytes]] = {
    "comments": (
        b": OPENROUTER PROCESSING\n\n",
        b"data: " + CHUNK % b"a" + b"\n\n",
        b":\n\n: keep alive\n\n",
        b"data: " + USAGE + b"\n\n: bye\n\ndata: [DONE]\n\n",
    ),
    "fields nobody asked for": (
        b"event: message\nid: 1\nretry: 10\ndata: " + CHUNK % b"a" + b"\n\n",
        b"data: " + USAGE + b"\n\ndata: [DONE]\n\n",
    ),
    "no space after the colon": (
        b"data:" + CHUNK % b"a" + b"\n\n",
        b"data:" + USAGE + b"\n\ndata:[DONE]\n\n",
    ),
    "data in several lines": (
        b'data: {"id":"c","choices":[{"index":0,\ndata: "delta":{"content":"a"}}]}\n\n',
        b"data: " + USAGE + b"\n\ndata: [DONE]\n\n",
    ),
    "mixed line ends": (
        b"data: " + CHUNK % b"a" + b"\r\n\r\n",
        b"data: " + CHUNK % b"b" + b"\n\n",
        b"data: " + USAGE + b"\r\n\ndata: [DONE]\n\n",
    ),
    "CR alone": (b"data: " + CHUNK % b"a" + b"\r\rdata: " + USAGE + b"\r\rdata: [DONE]\r\r",),
    "byte order mark": (
        b"\xef\xbb\xbfdata: " + CHUNK % b"a" + b"\n\n",
        b"data: " + USAGE + b"\n\ndata: [DONE]\n\n",
    ),
    "cut within characters": (
        b"data: " + CHUNK.partition(b"%b")[0] + "世".encode()[:1],
        "世".encode()[1:2],
        "世".encode()[2:] + "🌍".encode()[:3],
        "🌍".encode()[3:] + CHUNK.partition(b"%b")[2] + b"\n\ndata: ",
        USAGE + b"\n\ndata: [DONE]\n\n",
    ),
}


@pytest.mark.parametrize("pieces", ODD.values(), ids=ODD)
def test_whatever_the_upstream_writes_is_passed_on_as_it_is(
    h: House, tenant: Tenant, scripted: ScriptedUpstream, pieces: Sequence[bytes]
) -> None:
    scripted.pieces = pieces
    reply = tenant.client.chat(model="scripted", **ASKED)
    assert reply.body == b"".join(pieces)
    # And it was understood: the usage is charged.
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("success", 7 * 1_000 + 8 * 10_000)


@pytest.mark.parametrize("is_later", [False, True], ids=["at once", "later"])
def test_what_follows_the_terminator_is_passed_on_and_not_counted(
    h: House, tenant: Tenant, scripted: ScriptedUpstream, is_later: bool
) -> None:
    events = b"data: " + CHUNK % b"a" + b"\n\ndata: " + USAGE + b"\n\ndata: [DONE]\n\n"
    rest = b"data: " + CHUNK % b"late" + b"\n\n: the end"
    scripted.pieces = (events, rest) if is_later else (events + rest,)
    reply = tenant.client.chat(model="scripted", **ASKED)
    assert reply.body == events + rest
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("success", 7 * 1_000 + 8 * 10_000)


def test_terminator_without_its_blank_line_ends_the_stream_well(
    h: House, tenant: Tenant, scripted: ScriptedUpstream
) -> None:
    events = b"data: " + CHUNK % b"a" + b"\n\ndata: " + USAGE + b"\n\ndata: [DONE]"
    scripted.pieces = (events,)
    reply = tenant.client.chat(model="scripted", **ASKED)
    assert reply.body == events
    assert h.row(reply.trace)["status"] == "success"

"""Bytes go through as they are: those of the client to its upstream, changed only where the
specification says so, and those of a stream to its client, whole events and nothing made up.

Spec: Limits, Chat pre-charge 2, Events, Stream failure behaviour; contract §5 and §7. Every member
is proved in `tests/unit/channels/test_upstream_bodies.py`, every cut in
`tests/unit/calls/test_every_cut.py`.
"""

from __future__ import annotations

import json
from typing import Any

from tests.support.client import HELLO, chat_body
from tests.support.house import House
from tests.support.rows import each
from tests.support.tenants import Tenant

SAID = b'[{"role":"user","content":"Hi \\u00fc \xc3\xbc"}]'
UNCHANGED = [
    b'{"model":"m","max_tokens":90000,"messages":%b}' % SAID,
    b'{"model":"newer","max_completion_tokens":9,"messages":%b}' % SAID,
    b' {\n\t"model" : "m" ,\r\n "max_tokens": 9,  "messages":%b } \n' % SAID,
    b'{"model":"m","max_tokens":9,"x":{"y":[1.50,1E3,-0]},"messages":%b,"seed":null}' % SAID,
    b'{"model":"open-ended","messages":%b}' % SAID,
    b'{"model":"m","max_tokens":9,"stream":true,"stream_options":{ "include_usage" : true },'
    b'"messages":%b}' % SAID,
]
CHANGED = [
    (
        b'{"model":"newer","max_tokens" : 9,"messages":%b}' % SAID,
        b'{"model":"newer","max_completion_tokens" : 9,"messages":%b}' % SAID,
    ),
    (
        b'{"model" : "n", "max_tokens":9,"messages":%b}' % SAID,
        b'{"model" : "m", "max_tokens":9,"messages":%b}' % SAID,
    ),
    (
        b'{"model":"m","max_tokens":9,"stream":true,"messages":%b,'
        b'"stream_options":{"include_usage": false, "include_obfuscation":false}}' % SAID,
        b'{"model":"m","max_tokens":9,"stream":true,"messages":%b,'
        b'"stream_options":{"include_usage": true, "include_obfuscation":false}}' % SAID,
    ),
    (
        b'{"stream":true,"model":"m","messages":%b}' % SAID,
        b'{"stream":true,"model":"m","messages":%b,"max_tokens":1000,'
        b'"stream_options":{"include_usage":true}}' % SAID,
    ),
]
ASKED: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 500,
}
TEXT = 'Grüße, 世界! 🌍🏳️‍🌈 \u2028 and "quotes" \\ too'
FAITHFUL: list[dict[str, Any]] = [
    {"text": TEXT * 20, "split_bytes": 7},
    {"text": TEXT, "crlf": True, "split_bytes": 3},
    {"reasoning_text": TEXT * 3, "tool_calls": [{"name": "f", "arguments": {"text": TEXT * 5}}]},
    {"huge": 1_000_000},
    {"events": 9, "error_event": 4, "message": "It fell over."},
    {"malformed": "json"},
    {"malformed": "utf8"},
]
HELLO_TOKENS = -(-len(json.dumps([HELLO], separators=(",", ":"))) // 4)


@each("body, forwarded", [*((body, body) for body in UNCHANGED), *CHANGED])
def test_only_what_must_change_of_a_request_changes(
    h: House, tenant: Tenant, body: bytes, forwarded: bytes
) -> None:
    assert tenant.client.chat(body).status == 200
    assert h.upstream.last_request()["body"].encode() == forwarded


def upstreams_own(h: House, sim: dict[str, Any]) -> bytes:
    """What the simulator answers to the very body that the gateway forwards."""
    body = chat_body(**ASKED, sim=sim)
    return h.upstream.answer(json.dumps(body, separators=(",", ":")).encode())


@each("sim", FAITHFUL)
def test_stream_is_the_upstreams_byte_for_byte(h: House, sim: dict[str, Any]) -> None:
    tenant = h.tenant()
    reply = tenant.client.chat(**ASKED, sim=sim)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.body == upstreams_own(h, sim)
    assert h.upstream.requested("two") == [0]


@each("events, how", [(1, "close"), (2, "close"), (6, "reset")])
def test_cut_stream_ends_early_and_nothing_is_made_up(h: House, events: int, how: str) -> None:
    """So many events came through whole, nothing after them, and they are paid for."""
    h.upstream.reset()
    tenant = h.tenant()
    sim = {"events": 12, "chars_per_event": 9}
    whole = upstreams_own(h, sim)
    h.upstream.fault("one", cut_after_events=events, cut=how)
    reply = tenant.client.chat(**ASKED, sim=sim)
    assert reply.status == 200
    assert reply.body == b"".join(event + b"\n\n" for event in whole.split(b"\n\n")[:events])
    cost = HELLO_TOKENS * 1_000 + -(-len(reply.text) // 4) * 10_000 if reply.text else 0
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"]) == ("error", "upstream_error")
    assert row["cost_nano_usd"] == cost
    assert tenant.client.remaining_nano_usd() == 10**9 - cost
    assert h.upstream.requested("one", "two") == [2, 0]


def test_stream_ends_with_its_terminator_though_the_upstream_lingers(
    h: House, tenant: Tenant
) -> None:
    # Role, text, finish, usage, terminator; and then nothing, for ever.
    with tenant.client.begin_chat(**ASKED, sim={"text": "abc", "hang": 5}) as call:
        reply = call.reply()
        assert reply.is_complete
    assert h.row(reply.trace)["status"] == "success"
    h.upstream.wait(cancelled=1, active=0)


def test_error_in_place_of_an_answer_costs_nothing(h: House, tenant: Tenant) -> None:
    reply = tenant.client.chat(sim={"status": 200, "body": {"error": {"message": "No."}}})
    assert reply.refusal == (502, "api_error", "upstream_error")
    assert reply.json["error"]["message"] == "No."
    assert h.row(reply.trace)["cost_nano_usd"] == 0


def test_no_header_of_the_upstream_reaches_a_client(h: House, tenant: Tenant) -> None:
    sim = {"headers": {"X-Upstream-Org": "org-1", "Set-Cookie": "a=b", "Server": "upstream"}}
    ours = {"x-accel-buffering", "x-gateway-trace", "cache-control"}
    of_http = {"connection", "content-length", "content-type", "date", "transfer-encoding"}
    for stream in (False, True):
        reply = tenant.client.chat(model="m", stream=stream, sim=sim)
        assert reply.status == 200
        assert set(reply.headers) <= ours | of_http

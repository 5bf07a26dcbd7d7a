"""Another channel is tried when one fails, and only then (contract §4, §7: Failure classes).

And whatever the upstreams say of themselves, neither a client nor its rows hear of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client import Reply
from tests.support.house import House, channel, model
from tests.support.rows import each
from tests.support.tenants import Tenant

# Nobody listens there: 1 is a port that no ordinary user may open.
NOBODY = "http://127.0.0.1:1"
SETTINGS: dict[str, Any] = {
    "channels": [
        *(channel(name, priority=n) for n, name in enumerate(("one", "two", "three", "four"), 1)),
        *(channel(name, priority=5, base_url=NOBODY) for name in ("dead-a", "dead-b", "dead-c")),
        channel("nowhere", priority=5, base_url="http://no-such-host.invalid"),
        channel("late", priority=9),
        channel("other", protocols=["responses"]),
        channel("sole", priority=9),
        channel("refused", priority=1),
        channel("quiet", priority=1, first_event_seconds=0.3),
    ],
    "models": [
        model("sim-model", "one", "two", "three", "four"),
        model("dead-first", "dead-a", "late"),
        model("dead", "dead-a", "dead-b", "dead-c"),
        model("unnamed", "nowhere"),
        model("dead-last", "one", "dead-a"),
        model("responses-only", "other"),
        model("sole", "sole"),
        model("keyed", "refused", "late"),
        model("hushed", {"id": "quiet", "first_event_seconds": 0.5}, "late"),
    ],
}
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
LADDER = ("one", "two", "three", "four")


def failed(h: House, *channels: str, **directive: Any) -> None:
    """Make channels fail in the same way."""
    for name in channels:
        h.upstream.fault(name, **directive)


def assert_free(h: House, tenant: Tenant, reply: Reply, status: str, code: str) -> None:
    """The call cost nothing, and its row says why."""
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"], row["cost_nano_usd"]) == (status, code, 0)
    assert (row["input_tokens"], row["output_tokens"]) == (0, 0)
    assert tenant.client.remaining_nano_usd() == 10**9
    assert h.held_nano_usd(tenant) == 0


# What a channel does, and whether the call is streamed. Nothing has been sent to the client yet.
BROKEN: list[tuple[dict[str, Any], bool]] = [
    ({"status": 500}, False),
    ({"status": 529}, True),
    ({"status": 599, "body": "<html>gone</html>"}, False),
    ({"refuse": True}, True),
    ({"refuse": True, "cut": "reset"}, False),
    ({"malformed": "http"}, False),
    ({"cut_after_events": 0}, True),
    ({"cut_after_bytes": 10}, True),
    ({"malformed": "chunk", "cut_after_events": 0}, True),
    ({"cut_after_bytes": 20}, False),
    ({"malformed": "json"}, False),
    ({"malformed": "html"}, False),
]


@each("directive, stream", BROKEN)
def test_failed_channel_is_followed_by_the_next(
    h: House, directive: dict[str, Any], stream: bool
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    failed(h, "one", "two", **directive)
    reply = tenant.client.chat(stream=stream, sim={"usage": {"input": 10, "output": 10}})
    assert reply.status == 200
    assert reply.is_complete or not stream
    assert h.upstream.requested(*LADDER) == [1, 1, 1, 0]
    # Paid once, and the row knows of the two that failed.
    assert tenant.client.remaining_nano_usd() == 10**9 - 10 * 1_000 - 10 * 10_000
    row = h.row(reply.trace)
    assert row["status"] == "success"
    assert [attempt["seq"] for attempt in row["attempts"]] == [1, 2]
    assert all(attempt["error_code"].startswith("upstream_") for attempt in row["attempts"])


REFUSALS = {
    400: ("invalid_request_error", "invalid_request"),
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", "permission_denied"),
    409: ("api_error", "upstream_error"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


@each("stream", [False, True])
@each("status", REFUSALS)
def test_refusal_is_passed_on_and_not_tried_elsewhere(h: House, status: int, stream: bool) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault(
        status=status,
        message="The temperature is odd.",
        retry_after=17,
        headers={"x-ratelimit-limit-requests": "5"},
    )
    is_of_key = status in (401, 402, 403)
    reply = tenant.client.chat(model="sole" if is_of_key else "sim-model", stream=stream)
    assert reply.refusal == (status, *REFUSALS[status])
    assert reply.error["message"] == "The temperature is odd."
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers.get("retry-after") == ("17" if status == 429 else None)
    assert not [name for name in reply.headers if name.startswith("x-ratelimit")]
    assert h.upstream.requested(*LADDER, "sole") == [not is_of_key, 0, 0, 0, is_of_key]
    assert_free(h, tenant, reply, "error", REFUSALS[status][1])
    assert not h.row(reply.trace)["attempts"]


def test_refused_key_is_tried_elsewhere_and_the_channel_comes_last(
    h: House, tenant: Tenant
) -> None:
    failed(h, "refused", status=403, message="No rights.")
    first, second = (tenant.client.chat(model="keyed") for _ in range(2))
    assert (first.status, second.status) == (200, 200)
    (attempt,) = h.row(first.trace)["attempts"]
    assert (attempt["error_code"], attempt["error_message"]) == ("upstream_403", "No rights.")
    assert not h.row(second.trace)["attempts"]
    assert h.upstream.requested("refused", "late") == [1, 2]


@each("stream", [False, True])
def test_at_most_three_channels_are_tried_and_the_last_status_is_told(
    h: House, stream: bool
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    failed(h, "one", status=500)
    failed(h, "two", status=502)
    failed(h, "three", status=529, message="Overloaded, sorry.")
    reply = tenant.client.chat(stream=stream)
    assert reply.refusal == (529, "api_error", "upstream_error")
    assert reply.error["message"] == "Overloaded, sorry."
    assert h.upstream.requested(*LADDER) == [1, 1, 1, 0]
    assert_free(h, tenant, reply, "error", "upstream_error")
    attempts = h.row(reply.trace)["attempts"]
    assert [(attempt["seq"], attempt["error_code"]) for attempt in attempts] == [
        (1, "upstream_500"),
        (2, "upstream_502"),
        (3, "upstream_529"),
    ]


@each("stream", [False, True])
@each("name", ["dead", "unnamed"])
def test_unreachable_upstreams_are_a_502(h: House, name: str, stream: bool) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = tenant.client.chat(model=name, stream=stream)
    assert reply.refusal == (502, "api_error", "upstream_unreachable")
    assert_free(h, tenant, reply, "error", "upstream_unreachable")


@each("stream", [False, True])
def test_last_channel_tried_decides_what_is_told(h: House, tenant: Tenant, stream: bool) -> None:
    h.upstream.reset()
    failed(h, "one", "late", status=507)
    dead_last = tenant.client.chat(model="dead-last", stream=stream)
    assert dead_last.refusal == (502, "api_error", "upstream_unreachable")
    dead_first = tenant.client.chat(model="dead-first", stream=stream)
    assert dead_first.refusal == (507, "api_error", "upstream_error")
    for reply in (dead_last, dead_first):
        codes = {attempt["error_code"] for attempt in h.row(reply.trace)["attempts"]}
        assert codes == {"upstream_507", "upstream_unreachable"}


SECRETS = ("key-of-", "127.0.0.1", "dead-", "three", "no-such-host", "sk-proj", "http:")


@each("silence", [{"hang": "headers"}, {"comments_only": True, "delay_event_ms": 20}])
def test_silent_stream_is_left_for_the_next_channel_and_charged_once(
    h: House, silence: dict[str, Any]
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    failed(h, "quiet", **silence)
    reply = tenant.client.chat(model="hushed", stream=True)
    assert (reply.status, reply.events[-1]) == (200, b"[DONE]")
    h.upstream.wait(channel="quiet", cancelled=1)
    assert h.upstream.requested("quiet", "late") == [1, 1]
    row = h.row(reply.trace)
    assert (row["status"], row["attempts"][0]["error_code"]) == ("success", "upstream_unreachable")
    spent = 10**9 - tenant.client.remaining_nano_usd()
    assert row["cost_nano_usd"] == spent > 0

"""A call has so many seconds in all, streaming included (reference 10.5).

All calls that run out of time do so side by side, because nothing shortens the wait of a real
process; on a clock that jumps, the unit tests look at every moment at which time may be up.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from loadtests.rig.client import HELLO
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.response import Response

pytestmark = pytest.mark.long

# Enough for the first events of a stream to arrive on a machine that stands still now and then.
CHAT_SECONDS = 2.0
HELLO_TOKENS = -(-len(json.dumps([HELLO], separators=(",", ":"))) // 4)
SETTINGS: dict[str, Any] = {
    "timeouts": {"chat": CHAT_SECONDS, "image_attempt": 1.0},
    "channels": [
        channel(name, priority=n, protocols=["chat", "images"])
        for n, name in enumerate(("one", "two"))
    ],
    "models": [
        model("sim-model", "one", "two"),
        model(
            "picture", "one", "two", endpoint_type="images_generations", price={"per_image": "0.04"}
        ),
    ],
}
WITHOUT_RESPONSE: list[dict[str, Any]] = [
    {"sim": {"hang": "headers"}},
    {"stream": True, "sim": {"hang": 0}},
    {"sim": {"endless": True, "delay_event_ms": 20}},
]
STREAMS: list[dict[str, Any]] = [
    {"stream": True, "sim": {"events": 9, "hang": 5}},
    {"stream": True, "sim": {"endless": True, "delay_event_ms": 40}},
]


def test_calls_that_run_out_of_time_end_alike_and_pay_for_what_they_got(h: Deployment) -> None:
    request = [*WITHOUT_RESPONSE, *STREAMS]
    tenants = [h.tenant() for _ in request]
    with ThreadPoolExecutor(len(request)) as pool:
        replies = list(
            pool.map(
                lambda pair: pair[0].client.chat(**pair[1]), zip(tenants, request, strict=True)
            )
        )
    h.upstream.wait(active=0, cancelled=len(request))
    assert h.upstream.requested("one", "two") == [len(request), 0]  # nobody else is tried
    assert [reply.status for reply in replies] == [504] * len(WITHOUT_RESPONSE) + [200] * len(
        STREAMS
    )
    for tenant, reply in zip(tenants, replies, strict=True):
        row = h.row(reply.trace)
        assert (row["status"], row["error_code"]) == ("interrupted", "upstream_timeout")
        assert row["latency_ms"] > CHAT_SECONDS * 900
        assert tenant.client.remaining_nano_usd() == 10**9 - row["cost_nano_usd"]
        check(reply, row)


def check(reply: Response, row: dict[str, Any]) -> None:
    """A call without an answer is a 504 for nothing; a stream ends early and is paid for."""
    if reply.status != 200:
        assert reply.refusal == (504, "api_error", "upstream_timeout")
        assert row["cost_nano_usd"] == 0
        return
    assert reply.text
    assert not [
        mark for mark in (b"[DONE]", b'"finish_reason":"', b'"error"') if mark in reply.body
    ]
    assert row["cost_nano_usd"] == HELLO_TOKENS * 1_000 + -(-len(reply.text) // 4) * 10_000

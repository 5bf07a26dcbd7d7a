"""The bytes of a stream go through to its client as they are, and no header of the upstream does.

Reference 2.6. What of a request is changed is proved in
`tests/unit/channels/test_upstream_bodies.py`, every cut in `tests/unit/calls/test_every_cut.py`.
"""

import json
from typing import Any

from loadtests.rig.client import chat_body
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.support.rows import each

# Some of what goes through is neither JSON nor an event of any protocol.
ODD_UPSTREAMS = True
REQUESTED: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 500,
}
TEXT = 'Grüße, 世界! 🌍🏳️‍🌈 \u2028 and "quotes" \\ too'
FAITHFUL: list[dict[str, Any]] = [
    {"text": TEXT * 20, "split_bytes": 7},
    {"text": TEXT, "crlf": True, "split_bytes": 3},
    {"reasoning_text": TEXT * 3, "tool_calls": [{"name": "f", "arguments": {"text": TEXT * 5}}]},
    {"chars": 1_000_000, "events": 1},
    {"events": 9, "error_event": 4, "message": "It fell over."},
    {"malformed": "json"},
    {"malformed": "utf8"},
]


def upstreams_own(h: Deployment, sim: dict[str, Any]) -> bytes:
    """What the simulator answers to the very body that the gateway forwards."""
    body = chat_body(**REQUESTED, sim=sim)
    return h.upstream.serve(json.dumps(body, separators=(",", ":")).encode())


@each("sim", FAITHFUL)
def test_stream_is_the_upstreams_byte_for_byte(h: Deployment, sim: dict[str, Any]) -> None:
    tenant = h.tenant()
    reply = tenant.client.chat(**REQUESTED, sim=sim)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.body == upstreams_own(h, sim)
    assert h.upstream.requested("two") == [0]


def test_no_header_of_the_upstream_reaches_a_client(h: Deployment, tenant: Tenant) -> None:
    sim = {"headers": {"X-Upstream-Org": "org-1", "Set-Cookie": "a=b", "Server": "upstream"}}
    ours = {"x-accel-buffering", "x-gateway-trace", "cache-control"}
    of_http = {"connection", "content-length", "content-type", "date", "transfer-encoding"}
    for stream in (False, True):
        reply = tenant.client.chat(model="m", stream=stream, sim=sim)
        assert reply.status == 200
        assert set(reply.headers) <= ours | of_http

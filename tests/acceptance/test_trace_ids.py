"""Which trace a call belongs to, and what names it: `traceparent` from the client to the upstream
(W3C Trace Context), the call log, the receipt, log lines, latencies; refused calls, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.pictures import generate
from tests.acceptance.traced import CALLER, SETTINGS, TRACE, environ, header, traceparents
from tests.support.client import Client
from tests.support.collector import Sink, running_sink
from tests.support.house import House, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.rows import each
from tests.support.tenants import Tenant
from tests.support.waiting import until


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    """The collector of this module's gateway."""
    with running_sink() as sink:
        yield sink


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, sink: Sink) -> Iterator[House]:
    """A gateway that samples every call and exports at once."""
    with shared_house(postgres, environ=environ(sink), **SETTINGS) as built:
        yield built


# Refused before a channel is looked for: what is sent, and the error that its span names.
EARLY: dict[str, tuple[dict[str, Any], str]] = {
    "no such key": ({"key": "sk-platform-" + "0" * 64}, "invalid_api_key"),
    "no key": ({"key": None}, "invalid_api_key"),
    "no JSON": ({"body": b"{"}, "invalid_request"),
    "no such model": ({"model": "nothing"}, "model_not_found"),
    "a tool that no channel has": (
        {"stream": True, "tools": [{"type": "web_search"}]},
        "tool_not_supported",
    ),
}


@each("sent, error", EARLY.values())
def test_call_refused_early_has_its_span(
    h: House, sink: Sink, tenant: Tenant, sent: dict[str, Any], error: str
) -> None:
    members = {name: value for name, value in sent.items() if name != "key"}
    client = Client(tenant.client.url, sent["key"]) if "key" in sent else tenant.client
    reply = client.chat(headers={"traceparent": f"00-{TRACE}-{CALLER}-01"}, **members)
    call, _ = sink.tree(reply.trace)
    assert (call.trace_id, call.parent_id, call.kind) == (TRACE, CALLER, "server")
    knows_model = error == "tool_not_supported"
    assert call.name == ("chat sim-model" if knows_model else "chat")
    assert (call.error_type, call.is_error) == (error, False)
    assert ("gw.request_read" in call.events) is False
    assert call.attributes["http.response.status_code"] == reply.status
    assert call.attributes["gw.status"] == "rejected"
    assert call.attributes.get("gw.account") == (None if "key" in sent else tenant.account)
    assert ("gen_ai.request.model" in call.attributes) is knows_model
    assert not h.upstream.requests(1)


def test_sampled_caller_is_the_parent(h: House, sink: Sink, tenant: Tenant) -> None:
    said = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "congo=t61, BAD=1, rojo=2"}
    reply = tenant.client.chat(headers=said)
    call, (attempt,) = sink.of_call(reply.trace, attempts=1)
    assert (call.trace_id, call.parent_id) == (TRACE, CALLER)
    assert traceparents(h) == [header(attempt)]
    (request,) = h.upstream.requests(100)
    assert request["headers"]["tracestate"] == "congo=t61,rojo=2"
    assert attempt.trace_id == TRACE


def test_unsampled_caller_is_not_recorded_and_its_upstream_is_told_so(
    h: House, sink: Sink, tenant: Tenant
) -> None:
    unsampled = TRACE[::-1]
    reply = tenant.client.chat(headers={"traceparent": f"00-{unsampled}-{CALLER}-00"})
    assert reply.status == 200
    # Spans leave in order, so those of a later call tell that there were none.
    later = tenant.client.chat()
    _, (attempt,) = sink.of_call(later.trace, attempts=1)
    assert not [span for span in sink.received if span.trace_id == unsampled]
    assert traceparents(h) == [f"00-{unsampled}-{CALLER}-00", header(attempt)]


def test_row_and_receipt_of_a_call_name_its_trace(h: House, tenant: Tenant) -> None:
    client, traceparent = tenant.client, {"traceparent": f"00-{TRACE}-{CALLER}-01"}
    served = client.chat(headers=traceparent)
    refused = client.chat(headers=traceparent, model="nothing")
    own = client.chat()
    for reply, trace_id in ((served, TRACE), (refused, TRACE), (own, own.trace)):
        (row,) = client.get(f"/v1/logs?ref={reply.trace}").json["data"]
        pairs = client.get(f"/v1/logs/{row['id']}").json["gateway"]
        assert {"k": "otel_trace_id", "v": trace_id} in pairs
    receipt = h.gw("receipt", served.trace)
    assert receipt["gateway"]["otel_trace_id"] == TRACE


def test_log_lines_about_a_call_name_its_trace(h: House, tenant: Tenant) -> None:
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
    reply = generate(tenant.client, headers=headers, sim={"malformed": "json"})
    assert reply.status == 502

    def about_it() -> list[dict[str, Any]]:
        written = [json.loads(line) for line in h.gateway.lines if line.startswith("{")]
        return [line for line in written if line.get("request_id") == reply.trace]

    (line,) = until(about_it, what="a line about the call")
    assert (line["action"], line["trace_id"]) == ("answer_unusable", TRACE)

"""Spans as a collector gets them, and `traceparent` from the client to the upstream.

One span for each call and one below it for each attempt, with the `gen_ai.*` names of
OpenTelemetry; W3C Trace Context. What the SDK does with spans is unit-tested (`test_recording.py`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.pictures import EACH, generate, picture
from tests.support.aio import run
from tests.support.client import CHAT, Reply, chat_body
from tests.support.collector import ReadSpan, Sink, running_sink
from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.streams import unlimited
from tests.support.tenants import Tenant

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
USAGE = {"input": 100, "output": 20, "cached": 40}
CHANNELS = ("one", "two", "three")
SETTINGS: dict[str, Any] = {
    "channels": [
        channel(name, priority=place, protocols=["chat", "images"])
        for place, name in enumerate(CHANNELS)
    ],
    "models": [
        model("sim-model", *CHANNELS),
        model("renamed", {"id": "one", "as": "vendor/sim"}, owned_by="vendor"),
        picture("picture", "one"),
    ],
}


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    """The collector of this module's gateway."""
    with running_sink() as sink:
        yield sink


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, sink: Sink) -> Iterator[House]:
    """A gateway that samples every call and exports at once."""
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
        "OTEL_TRACES_SAMPLER_ARG": "1.0",
        "OTEL_SERVICE_NAME": "gw-under-test",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "NO_PROXY": "127.0.0.1",
    }
    with shared_house(postgres, environ=environ, **SETTINGS) as built:
        yield built


def traceparents(h: House) -> list[str | None]:
    """The header of each request that reached the upstream, in order."""
    return [request["headers"].get("traceparent") for request in h.upstream.requests(100)]


def header(span: ReadSpan) -> str:
    """The `traceparent` that names this span as the parent."""
    return f"00-{span.trace_id}-{span.span_id}-01"


def test_call_and_attempt_are_one_tree(h: House, sink: Sink, tenant: Tenant) -> None:
    reply = tenant.client.chat(max_tokens=50, sim={"usage": USAGE})
    call, (attempt,) = sink.of_call(reply.trace, attempts=1)
    assert (call.name, call.kind, call.parent_id) == ("gw.chat.complete", "server", "")
    assert (attempt.name, attempt.kind) == ("gw.failover.attempt", "client")
    assert attempt.parent_id == call.span_id
    assert traceparents(h) == [header(attempt)]
    assert (call.service, call.is_error, attempt.is_error) == ("gw-under-test", False, False)
    assert call.start_ns <= attempt.start_ns <= attempt.end_ns <= call.end_ns
    answer = reply.json
    assert call.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "sim",
        "gen_ai.request.model": "sim-model",
        "gen_ai.request.stream": False,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.response.id": answer["id"],
        "gen_ai.response.model": answer["model"],
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gw.account": tenant.account,
        "gw.call": reply.trace,
        "gw.cost_nano_usd": 60 * 1_000 + 40 * 100 + 20 * 10_000,
        "gw.error_code": "",
        "gw.protocol": "chat",
        "gw.status": "success",
    }
    assert attempt.attributes == {
        "gen_ai.request.model": "sim-model",
        "gw.channel": "one",
        "gw.outcome": "ok",
    }


def test_images_are_told_by_the_piece(h: House, sink: Sink, tenant: Tenant) -> None:
    reply = generate(tenant.client, n=2)
    call, (attempt,) = sink.of_call(reply.trace, attempts=1)
    assert (call.name, call.is_error) == ("gw.images.generate", False)
    assert call.attributes == {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.output.type": "image",
        "gen_ai.provider.name": "sim",
        "gen_ai.request.model": "picture",
        "gen_ai.response.model": "picture",
        "gw.account": tenant.account,
        "gw.call": reply.trace,
        "gw.cost_nano_usd": 2 * EACH,
        "gw.error_code": "",
        "gw.protocol": "images",
        "gw.status": "success",
        "gw.units": 2,
    }
    assert traceparents(h) == [header(attempt)]


def test_stream_tells_when_its_first_bytes_came(sink: Sink, tenant: Tenant) -> None:
    sim = {"usage": USAGE, "delay_headers_ms": 30}
    begun = time.monotonic()
    reply = tenant.client.chat(model="renamed", stream=True, sim=sim)
    seconds = time.monotonic() - begun
    call, (attempt,) = sink.of_call(reply.trace, attempts=1)
    first_seconds = call.attributes["gen_ai.response.time_to_first_chunk"]
    assert 0.03 <= first_seconds <= seconds
    assert call.attributes["gen_ai.request.stream"] is True
    assert call.attributes["gen_ai.provider.name"] == "vendor"
    # The model as the client knows it, and as the channel does.
    assert call.attributes["gen_ai.request.model"] == "renamed"
    assert call.attributes["gen_ai.response.model"] == "vendor/sim"
    assert attempt.attributes["gen_ai.request.model"] == "vendor/sim"
    assert attempt.end_ns - attempt.start_ns >= 30 * 10**6


def test_each_attempt_is_a_span_of_its_own(h: House, sink: Sink, tenant: Tenant) -> None:
    h.upstream.fault("one", status=503)
    h.upstream.fault("two", refuse=True)
    reply = tenant.client.chat(sim={"usage": USAGE})
    assert reply.status == 200
    call, attempts = sink.of_call(reply.trace, attempts=3)
    assert [a.attributes["gw.channel"] for a in attempts] == ["one", "two", "three"]
    assert [a.attributes["gw.outcome"] for a in attempts] == ["status_5xx", "unreachable", "ok"]
    assert [a.is_error for a in attempts] == [True, True, False]
    assert {a.parent_id for a in attempts} == {call.span_id}
    assert traceparents(h) == [header(attempt) for attempt in attempts]
    assert not call.is_error


FAILED: dict[str, tuple[dict[str, Any], list[str], dict[str, str]]] = {
    "refused upstream": (
        {"sim": {"status": 422}},
        ["status_4xx"],
        {"gw.status": "error", "gw.error_code": "invalid_request"},
    ),
    "failed upstream": (
        {"sim": {"status": 500}},
        ["status_5xx"] * 3,
        {"gw.status": "error", "gw.error_code": "upstream_error"},
    ),
    "cut": (
        {"stream": True, "sim": {"events": 5, "cut_after_events": 3}},
        ["cut"],
        {"gw.status": "error", "gw.error_code": "upstream_error"},
    ),
    "not covered": (
        {"max_tokens": 10**12},
        [],
        {"gw.status": "rejected", "gw.error_code": "quota_exceeded"},
    ),
}


@pytest.mark.parametrize(("members", "outcomes", "expected"), FAILED.values(), ids=FAILED)
def test_failure_is_marked_on_its_span(
    sink: Sink,
    tenant: Tenant,
    members: dict[str, Any],
    outcomes: list[str],
    expected: dict[str, str],
) -> None:
    reply = tenant.client.chat(**members)
    call, attempts = sink.of_call(reply.trace, attempts=len(outcomes))
    assert [a.attributes["gw.outcome"] for a in attempts] == outcomes
    assert all(span.is_error for span in (call, *attempts))
    assert {name: call.attributes[name] for name in expected} == expected


def test_client_that_leaves_ends_both_spans(h: House, sink: Sink, tenant: Tenant) -> None:
    with tenant.client.begin_chat(stream=True, sim={"text": "a b c", "hang": 2}) as call:
        call.read_some()
        trace = call.begun().headers["x-gateway-trace"]
    span, (attempt,) = sink.of_call(trace, attempts=1)
    assert span.attributes["gw.status"] == "interrupted"
    assert span.attributes["gw.error_code"] == "client_disconnected"
    assert attempt.attributes["gw.outcome"] == "cancelled"
    assert span.is_error
    assert attempt.is_error


def test_sampled_caller_is_the_parent(h: House, sink: Sink, tenant: Tenant) -> None:
    reply = tenant.client.chat(headers={"traceparent": f"00-{TRACE}-{CALLER}-01"})
    call, (attempt,) = sink.of_call(reply.trace, attempts=1)
    assert (call.trace_id, call.parent_id) == (TRACE, CALLER)
    assert traceparents(h) == [header(attempt)]
    assert attempt.trace_id == TRACE


def test_unsampled_caller_is_not_recorded(h: House, sink: Sink, tenant: Tenant) -> None:
    unsampled = TRACE[::-1]
    reply = tenant.client.chat(headers={"traceparent": f"00-{unsampled}-{CALLER}-00"})
    assert reply.status == 200
    # Spans leave in order, so those of a later call tell that there were none.
    later = tenant.client.chat()
    _, (attempt,) = sink.of_call(later.trace, attempts=1)
    assert not [span for span in sink.received if span.trace_id == unsampled]
    assert traceparents(h) == [None, header(attempt)]


MALFORMED = {
    "garbage": "garbage",
    "no span": f"00-{TRACE}-{'0' * 16}-01",
    "upper case": f"00-{TRACE.upper()}-{CALLER}-01",
    "more than its version has": f"00-{TRACE}-{CALLER}-01-x",
}


@pytest.mark.parametrize("traceparent", MALFORMED.values(), ids=MALFORMED)
def test_malformed_caller_is_as_good_as_none(sink: Sink, tenant: Tenant, traceparent: str) -> None:
    reply = tenant.client.chat(headers={"traceparent": traceparent})
    call, _ = sink.of_call(reply.trace, attempts=1)
    assert call.parent_id == ""
    assert call.trace_id != TRACE


def test_numbers_too_large_for_a_span_do_not_cost_others_theirs(sink: Sink, tenant: Tenant) -> None:
    for huge in (2**53 - 1, 2**63 - 1, 2**63, 10**30):
        assert tenant.client.chat(max_tokens=huge).status in (400, 402)
    reply = tenant.client.chat(sim={"usage": {"input": 10**9, "output": 10**9}})
    assert sink.of_call(reply.trace, attempts=1)


def test_calls_at_once_keep_their_trees_apart(h: House, sink: Sink, tenant: Tenant) -> None:
    h.upstream.fault("one", status=500)
    count = 30

    async def main() -> list[Reply]:
        body = json.dumps(chat_body(stream=True, sim={"delay_headers_ms": 20, "events": 3}))
        async with unlimited() as session:

            async def one() -> Reply:
                url, headers = tenant.client.url + CHAT, {"x-api-key": tenant.key}
                async with session.post(url, data=body, headers=headers) as answer:
                    return Reply(
                        answer.status,
                        {name.lower(): value for name, value in answer.headers.items()},
                        await answer.read(),
                    )

            return await asyncio.gather(*(one() for _ in range(count)))

    replies = run(main())
    trees = [sink.of_call(reply.trace, attempts=2) for reply in replies]
    assert len({call.trace_id for call, _ in trees}) == count
    told = set()
    for call, attempts in trees:
        assert [a.attributes["gw.channel"] for a in attempts] == ["one", "two"]
        assert {a.parent_id for a in attempts} == {call.span_id}
        told |= {header(attempt) for attempt in attempts}
    assert set(traceparents(h)) == told

"""Spans as a collector gets them: the tree of a call, whatever it is and however it ends.

One span for each call; below it its hold, each attempt, its settlement, with the `gen_ai.*` names
of OpenTelemetry. Whose trace a call belongs to, and what else names it, is `test_trace_ids.py`;
what the SDK does with spans is unit-tested (`tests/unit/metrics/test_recording.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from metrics.version import release
from tests.acceptance.films import ended, submit
from tests.acceptance.pictures import EACH, generate
from tests.acceptance.traced import (
    HOLD,
    SETTINGS,
    SETTLE,
    SPEECH,
    USAGE,
    environ,
    header,
    traceparents,
)
from tests.support.collector import Sink, running_sink
from tests.support.house import House, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.tenants import Tenant


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


def server_of(h: House) -> dict[str, Any]:
    """Where the simulator is, in the words of a span."""
    url = urlsplit(h.simulator.url)
    return {"server.address": url.hostname, "server.port": url.port}


def test_call_and_its_steps_are_one_tree(h: House, sink: Sink, tenant: Tenant) -> None:
    reply = tenant.client.chat(
        max_tokens=50,
        temperature=0.5,
        headers={"session_id": "dialogue-7"},
        sim={"usage": USAGE},
    )
    call, (hold, attempt, settle) = sink.tree(reply.trace, HOLD, "chat sim-model", SETTLE)
    assert (call.name, call.kind, call.parent_id) == ("chat sim-model", "server", "")
    assert (attempt.kind, hold.kind, settle.kind) == ("client", "internal", "internal")
    # A trace that begins here is known by what clients have of the call.
    assert call.trace_id == reply.trace
    assert traceparents(h) == [header(attempt)]
    assert (call.service, call.version) == ("gw-under-test", release())
    assert not any(span.is_error for span in (call, hold, attempt, settle))
    # What a call waits for, in order; the client has its answer while the settlement commits.
    assert call.start_ns <= call.events["gw.request_read"] <= hold.start_ns
    assert hold.end_ns <= attempt.start_ns <= attempt.events["gw.leased"]
    assert list(attempt.events) == ["gw.leased", "gw.connected", "gw.response_head"]
    assert sorted(attempt.events.values()) == list(attempt.events.values())
    assert attempt.end_ns <= settle.start_ns <= call.end_ns
    answer = reply.json
    assert call.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "sim",
        "gen_ai.conversation.id": "dialogue-7",
        "gen_ai.request.model": "sim-model",
        "gen_ai.request.stream": False,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.id": answer["id"],
        "gen_ai.response.model": answer["model"],
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "gw.account": tenant.account,
        "gw.call": reply.trace,
        "gw.cost_nano_usd": 60 * 1_000 + 40 * 100 + 20 * 10_000,
        "gw.protocol": "chat",
        "gw.status": "success",
    }
    assert attempt.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "sim",
        "gen_ai.request.model": "sim-model",
        "http.response.status_code": 200,
        "gw.channel": "one",
        "gw.outcome": "ok",
        "gw.protocol": "chat",
        **server_of(h),
    }
    assert hold.attributes["gw.hold_nano_usd"] > call.attributes["gw.cost_nano_usd"]


def test_images_are_told_by_the_piece(h: House, sink: Sink, tenant: Tenant) -> None:
    reply = generate(tenant.client, n=2)
    call, below = sink.tree(reply.trace, HOLD, "generate_content picture", SETTLE)
    assert (call.name, call.is_error) == ("generate_content picture", False)
    assert call.attributes == {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.output.type": "image",
        "gen_ai.provider.name": "sim",
        "gen_ai.request.model": "picture",
        "gen_ai.response.model": "picture",
        "gw.account": tenant.account,
        "gw.call": reply.trace,
        "gw.cost_nano_usd": 2 * EACH,
        "gw.protocol": "images",
        "gw.status": "success",
        "gw.units": 2,
    }
    assert traceparents(h) == [header(below[1])]


def test_speech_made_at_once_and_a_film_taken_on_have_their_steps(
    h: House, sink: Sink, tenant: Tenant
) -> None:
    spoken = tenant.client.send("POST", SPEECH, {"model": "tts", "input": "Ahoy", "voice": "amber"})
    assert spoken.status == 200
    call, _ = sink.tree(spoken.trace, HOLD, "generate_content tts", SETTLE)
    assert (call.attributes["gen_ai.output.type"], call.attributes["gw.units"]) == ("speech", 4)
    h.upstream.fault("one", task_seconds=0.1, real_seconds=4)
    film = submit(tenant.client)
    assert film.status == 200
    call, (_, attempt, _) = sink.tree(film.trace, HOLD, "generate_content film", "gw.job.accept")
    assert call.attributes["gw.status"] == "success"
    assert attempt.attributes["server.port"] == server_of(h)["server.port"]
    assert header(attempt) in traceparents(h)
    # Nobody asks the upstream for it while another test counts what it was asked.
    assert ended(tenant.client, film.json["id"])["status"] == "succeeded"


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
    assert (call.name, attempt.name) == ("chat renamed", "chat vendor/sim")
    assert call.attributes["gen_ai.request.model"] == "renamed"
    assert call.attributes["gen_ai.response.model"] == "vendor/sim"
    assert attempt.attributes["gen_ai.request.model"] == "vendor/sim"
    # Where the time went: the simulator was silent before its head, and not after it.
    events = attempt.events
    assert list(events) == ["gw.leased", "gw.connected", "gw.response_head", "gw.first_chunk"]
    assert events["gw.response_head"] - events["gw.connected"] >= 30 * 10**6
    assert "gen_ai.conversation.id" not in call.attributes


def test_translated_call_of_a_third_party_says_where_it_went_and_tells_it_nothing(
    h: House, sink: Sink, tenant: Tenant
) -> None:
    metadata = {"session_id": "from-metadata", "other": "x"}
    reply = tenant.client.chat(model="abroad", stream=True, metadata=metadata)
    assert reply.is_complete
    call, (attempt,) = sink.of_call(reply.trace, attempts=1)
    assert call.attributes["gen_ai.conversation.id"] == "from-metadata"
    assert call.attributes["gen_ai.provider.name"] == "elsewhere"
    assert attempt.attributes["gen_ai.provider.name"] == "anthropic"
    assert (call.attributes["gw.protocol"], attempt.attributes["gw.protocol"]) == (
        "chat",
        "messages",
    )
    assert traceparents(h) == [None]


def test_each_attempt_is_a_span_of_its_own(h: House, sink: Sink, tenant: Tenant) -> None:
    h.upstream.fault("one", status=503)
    h.upstream.fault("two", refuse=True)
    reply = tenant.client.chat(sim={"usage": USAGE})
    assert reply.status == 200
    call, attempts = sink.of_call(reply.trace, attempts=3)
    assert [a.attributes["gw.channel"] for a in attempts] == ["one", "two", "three"]
    assert [a.attributes["gw.outcome"] for a in attempts] == ["status_5xx", "unreachable", "ok"]
    assert [a.is_error for a in attempts] == [True, True, False]
    assert [a.error_type for a in attempts] == ["503", "unreachable", None]
    assert {a.parent_id for a in attempts} == {call.span_id}
    assert traceparents(h) == [header(attempt) for attempt in attempts]
    assert not call.is_error
    assert call.error_type is None

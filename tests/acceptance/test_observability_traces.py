"""Spans as a collector gets them: the tree of a call, whatever it is and however it ends.

One span for each call; below it its hold, each attempt, its settlement, with the `gen_ai.*` names
of OpenTelemetry, and what else names its trace. What the SDK does with spans, and whose trace a
call belongs to, is in `tests/unit/metrics/test_recording.py`.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, deployment, model, shared_deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import PATIENCE_SECONDS, until
from metrics.version import release
from tests.acceptance import sounds
from tests.acceptance.films import ended, submit
from tests.acceptance.pictures import EACH, generate, picture
from tests.support.collector import ReadSpan, Sink, running_sink
from tests.support.rows import each

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
USAGE = {"input": 100, "output": 20, "cached": 40, "reasoning": 5}
CHANNELS = ("one", "two", "three")
HOLD, SETTLE = "gw.wallet.hold", "gw.wallet.settle"
SPEECH = "/v1/audio/speech"
SETTINGS: dict[str, Any] = {
    "channels": [
        *(
            # Our own: they are to go on with the trace.
            channel(
                name, priority=place, protocols=["chat", "images", "speech"], propagate_trace=True
            )
            for place, name in enumerate(CHANNELS)
        ),
        channel("far", protocols=["messages"], kind="anthropic"),
    ],
    "models": [
        model("sim-model", *CHANNELS),
        model("renamed", {"id": "one", "as": "vendor/sim"}, owned_by="vendor"),
        model("abroad", "far", owned_by="elsewhere"),
        picture("picture", "one"),
        model("tts", "one", **sounds.SPOKEN),
        model("film", "one", **sounds.FILMED),
    ],
    "tasks": {"poll_first": 0.1, "poll_max": 0.3},
}
SETTINGS["channels"][0]["protocols"] += ["videos"]


def environ(sink: Sink, **more: str) -> dict[str, str]:
    """What has a gateway export every call at once."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.url,
        "OTEL_TRACES_SAMPLER_ARG": "1.0",
        "OTEL_SERVICE_NAME": "gw-under-test",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "NO_PROXY": "127.0.0.1",
        **more,
    }


def traceparents(h: Deployment) -> list[str | None]:
    """The header of each request that an attempt sent to the upstream, in order.

    Not those of polls, which belong to no call: a task of an earlier test may be polled still.
    """
    sent = [one for one in h.upstream.requests(100) if one["method"] == "POST"]
    return [one["headers"].get("traceparent") for one in sent]


def header(span: ReadSpan) -> str:
    """The `traceparent` that names this span as the parent."""
    return f"00-{span.trace_id}-{span.span_id}-01"


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    """The collector of this module's gateway."""
    with running_sink() as sink:
        yield sink


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, sink: Sink) -> Iterator[Deployment]:
    """A gateway that samples every call and exports at once."""
    with shared_deployment(postgres, environ=environ(sink), **SETTINGS) as built:
        yield built


def server_of(h: Deployment) -> dict[str, Any]:
    """Where the simulator is, in the words of a span."""
    url = urlsplit(h.simulator.url)
    return {"server.address": url.hostname, "server.port": url.port}


def test_call_and_its_steps_are_one_tree(h: Deployment, sink: Sink, tenant: Tenant) -> None:
    reply = tenant.client.chat(
        max_tokens=50, temperature=0.5, headers={"session_id": "dialogue-7"}, sim={"usage": USAGE}
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
    response = reply.json
    assert call.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "sim",
        "gen_ai.conversation.id": "dialogue-7",
        "gen_ai.request.model": "sim-model",
        "gen_ai.request.stream": False,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.id": response["id"],
        "gen_ai.response.model": response["model"],
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


def test_images_are_counted_by_the_piece(h: Deployment, sink: Sink, tenant: Tenant) -> None:
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
    h: Deployment, sink: Sink, tenant: Tenant
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
    h: Deployment, sink: Sink, tenant: Tenant
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
    h: Deployment, sink: Sink, tenant: Tenant, sent: dict[str, Any], error: str
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


def test_unsampled_caller_is_not_recorded_and_its_upstream_knows(
    h: Deployment, sink: Sink, tenant: Tenant
) -> None:
    unsampled = TRACE[::-1]
    reply = tenant.client.chat(headers={"traceparent": f"00-{unsampled}-{CALLER}-00"})
    assert reply.status == 200
    # Spans leave in order, so those of a later call tell that there were none.
    later = tenant.client.chat()
    _, (attempt,) = sink.of_call(later.trace, attempts=1)
    assert not [span for span in sink.received if span.trace_id == unsampled]
    assert traceparents(h) == [f"00-{unsampled}-{CALLER}-00", header(attempt)]


def test_row_and_receipt_of_a_call_name_its_trace(h: Deployment, tenant: Tenant) -> None:
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


def test_log_lines_about_a_call_name_its_trace(h: Deployment, tenant: Tenant) -> None:
    headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
    reply = generate(tenant.client, headers=headers, sim={"malformed": "json"})
    assert reply.status == 502

    def about_it() -> list[dict[str, Any]]:
        written = [json.loads(line) for line in h.gateway.lines if line.startswith("{")]
        return [line for line in written if line.get("request_id") == reply.trace]

    (line,) = until(about_it, what="a line about the call")
    assert (line["action"], line["trace_id"]) == ("answer_unusable", TRACE)


CALLS = 60

BOUNDS = {
    "OTEL_BSP_MAX_QUEUE_SIZE": "40",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10",
    "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
}


@pytest.fixture
def database(postgres: PostgresForTests) -> Iterator[str]:
    """An empty database."""
    with postgres.database() as url:
        yield url


@pytest.mark.long
def test_collector_that_hangs_holds_up_no_call_and_no_end(database: str, tmp_path: Path) -> None:
    with (
        running_sink() as sink,
        deployment(database, tmp_path, environ=environ(sink, **BOUNDS), **SETTINGS) as built,
    ):
        first = built.client.chat()
        sink.call(first.trace)
        _, headers, body = sink.posts.get(timeout=PATIENCE_SECONDS)
        assert (headers["content-encoding"], body[:2]) == ("gzip", b"\x1f\x8b")
        sink.replies.clear()
        replies = [built.client.chat() for _ in range(CALLS)]
        assert {reply.status for reply in replies} == {200}
        until(lambda: "Queue full" in built.gateway.log(), what="a word on spans dropped")
        # Far more than once it was, and the log is not flooded with it.
        assert sum("Queue full" in line for line in built.gateway.lines) < CALLS
        sink.replies.set()
        until(lambda: built.client.chat().trace in sink.gateway_traces, what="spans again")
        assert not {reply.trace for reply in replies} <= sink.gateway_traces
        sink.replies.clear()
        assert built.client.chat().status == 200
        assert built.gateway.terminate() == 0
        built.start()

"""`/metrics` after a known set of calls, number by number; its formats; and what is served where.

Probes and logs are in `test_observability_logs.py`, spans in `test_observability_traces.py`.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.scrape import Admin, Page

NOBODY = "http://127.0.0.1:1"
FAILURES = 3
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("good"),
        channel("bad", health={"failures": FAILURES, "cooldown": 3600}, max_concurrency=7),
        channel("away", base_url=NOBODY),
    ],
    "models": [model("sim-model", "good"), model("unsteady", "bad", "good"), model("lost", "away")],
}
SETTINGS["channels"][0]["priority"] = 2  # tried after the others
USAGE = {"input": 100, "output": 20, "cached": 40}
COST_NANO_USD = 60 * 1_000 + 40 * 100 + 20 * 10_000
PLAIN, STREAMS, REFUSED = 3, 2, 2
TEXT = "abcdefgh" * 10
SEEN_CHARACTERS = 16


@dataclass(frozen=True)
class Seen:
    """What the metrics said while a call was under way, and after all of them."""

    during: Page
    page: Page
    tenants: tuple[str, ...]


@pytest.fixture(scope="module")
def seen(shared: Deployment) -> Seen:
    """The known set of calls, on a gateway that has served nothing before."""
    tenant, admin = shared.tenant(nano_usd=10**9), Admin(shared.gateway.admin_url)
    client = tenant.client
    for _ in range(PLAIN):
        assert client.chat(sim={"usage": USAGE}).status == 200
    for _ in range(STREAMS):
        assert client.chat(stream=True, sim={"usage": USAGE}).is_complete
    # Refused by the gateway: before the body is read, for it, for the money.
    assert Client(client.url, "sk-platform-wrong").chat().status == 401
    assert client.chat(b"{").status == 400
    assert client.chat(model="nothing-" + "x" * 99).status == 400
    assert client.chat(max_tokens=10**9).status == 402
    hurried = shared.tenant(rpm=1)
    assert [hurried.client.chat(sim={"usage": USAGE}).status for _ in range(2)] == [200, 429]
    # Refused and failed by upstreams; with the third failure in a row `bad` is open.
    for _ in range(REFUSED):
        assert client.chat(sim={"status": 422}).status == 422
    assert client.chat(model="lost").status == 502
    shared.upstream.fault("bad", status=503)
    for _ in range(FAILURES + 1):
        assert client.chat(model="unsteady", sim={"usage": USAGE}).status == 200
    broken = client.chat(
        stream=True, sim={"text": TEXT, "chars_per_event": 8, "cut_after_events": 3}
    )
    assert (broken.is_complete, broken.text) == (False, TEXT[:SEEN_CHARACTERS])
    # Interrupted: the client leaves a stream that hangs after two events with text.
    call = client.begin_chat(stream=True, sim={"text": TEXT, "chars_per_event": 8, "hang": 3})
    text = b""
    while text.count(b'"abcdefgh"') < 2:
        text += call.read_some()
    during = admin.page_when(lambda page: page.value("gw_holds_open") == 1, what="an open hold")
    call.leave()
    page = admin.page_when(
        lambda page: page.value("gw_holds_open") == 0 and not page.total("gw_calls_in_flight"),
        what="no open hold",
    )
    return Seen(during, page, (tenant.account, hurried.account))


def test_calls_are_counted_by_how_they_ended(seen: Seen) -> None:
    # code, model, protocol, status
    assert seen.page.series("gw_calls_total") == {
        ("ok", "sim-model", "chat", "success"): PLAIN + STREAMS + 1,
        ("ok", "unsteady", "chat", "success"): FAILURES + 1,
        ("invalid_request", "other", "chat", "rejected"): 1,
        ("model_not_found", "other", "chat", "rejected"): 1,
        ("quota_exceeded", "sim-model", "chat", "rejected"): 1,
        ("rate_limit_exceeded", "other", "chat", "rejected"): 1,
        ("invalid_request", "sim-model", "chat", "error"): REFUSED,
        ("upstream_unreachable", "lost", "chat", "error"): 1,
        ("upstream_error", "sim-model", "chat", "error"): 1,
        ("client_disconnected", "sim-model", "chat", "interrupted"): 1,
    }
    # Refusals take no time worth measuring; a first byte is one of an answer.
    calls = PLAIN + STREAMS + 1 + REFUSED + 1 + 1
    assert seen.page.series("gw_call_latency_seconds_count") == {
        ("chat",): calls + FAILURES + 2,
    }
    assert seen.page.series("gw_first_byte_seconds_count") == {
        ("sim-model", "chat"): calls - REFUSED,
        ("unsteady", "chat"): FAILURES + 1,
    }
    assert seen.page.series("gw_limit_refusals_total") == {("rpm",): 1}
    # Streams that were whole; what the upstream calls its model, what it is, what it was asked for.
    assert seen.page.series("gw_output_token_seconds_count") == {("sim-model",): STREAMS}
    responses = seen.page.series("gw_response_models_total")
    assert responses["sim-model", "sim-model", "sim-model"] >= PLAIN + STREAMS + 1
    assert responses["unsteady", "unsteady", "unsteady"] == FAILURES + 1


def test_tokens_and_cost_are_those_of_the_rows(shared: Deployment, seen: Seen) -> None:
    page, full = seen.page, PLAIN + STREAMS + 1
    # The two streams that ended early are estimated: characters by four, input by their bytes.
    hello_tokens, seen_tokens = 9, SEEN_CHARACTERS // 4
    assert page.series("gw_tokens_total") == {
        ("fresh_input", "sim-model"): 60 * full + 2 * hello_tokens,
        ("cached_input", "sim-model"): 40 * full,
        ("output", "sim-model"): 20 * full + 2 * seen_tokens,
        ("fresh_input", "unsteady"): 60 * (FAILURES + 1),
        ("cached_input", "unsteady"): 40 * (FAILURES + 1),
        ("output", "unsteady"): 20 * (FAILURES + 1),
    }
    early = hello_tokens * 1_000 + seen_tokens * 10_000
    assert page.series("gw_cost_nano_usd_total") == {
        ("sim-model",): COST_NANO_USD * full + 2 * early,
        ("unsteady",): COST_NANO_USD * (FAILURES + 1),
    }
    rows = shared.query(
        "SELECT status, cost_nano_usd FROM call_logs WHERE account_id = ANY(%s)", list(seen.tenants)
    )
    assert sum(row["cost_nano_usd"] for row in rows) == page.total("gw_cost_nano_usd_total")
    by_status: Counter[str] = Counter()
    for (_, _, _, status), count in page.series("gw_calls_total").items():
        by_status[status] += int(count)
    assert Counter(row["status"] for row in rows) == by_status


def test_call_under_way_is_seen_in_gauges(seen: Seen) -> None:
    during = seen.during
    assert during.series("gw_calls_in_flight") == {("chat",): 1}
    assert during.value("gw_channel_slots_in_use", "good") == 1
    assert during.value("gw_holds_open") == 1
    assert 0 <= during.value("gw_oldest_hold_seconds") < 60
    assert seen.page.series("gw_calls_in_flight") == {("chat",): 0}
    assert seen.page.value("gw_oldest_hold_seconds") == 0


def test_ledger_is_measured(seen: Seen) -> None:
    page = seen.page
    settled = sum(
        count
        for (*_, status), count in page.series("gw_calls_total").items()
        if status != "rejected"
    )
    assert page.value("gw_settle_latency_seconds_count") == settled
    assert page.value("gw_hold_latency_seconds_count") == settled + 1
    assert page.series("gw_hold_refusals_total") == {("insufficient_funds",): 1}
    recorded = 3  # refused before there was a hold to ask for: no row but theirs
    # A hold that is admitted in memory is written with its settlement, or by itself.
    fewest = settled + 1 + recorded
    assert fewest <= page.value("gw_ledger_batch_messages_sum") <= 2 * fewest
    assert page.value("gw_settle_latency_seconds_sum") > 0
    for never in ("gw_settle_noops_total", "gw_calls_recovered_total", "gw_ledger_retries_total"):
        assert page.value(never) == 0
    assert page.series("gw_actor_restarts_total") == {}

"""Each event of calls, money and the process moves the series it should."""

from __future__ import annotations

import pytest

from metrics.prometheus import Metrics
from tests.unit.metrics.worlds import World


def test_call_is_in_flight_from_start_to_end(world: World) -> None:
    world.metrics.call_started("chat")
    world.metrics.call_started("chat")
    assert world.value("gw_calls_in_flight", protocol="chat") == 2
    world.finish()
    assert world.value("gw_calls_in_flight", protocol="chat") == 1
    world.finish("rejected", "quota_exceeded")
    assert world.value("gw_calls_in_flight", protocol="chat") == 0


def test_call_is_counted_by_how_it_ended(world: World) -> None:
    world.finish()
    world.finish()
    world.finish("error", "upstream_error")
    ended = {"protocol": "chat", "model": "gpt-5"}
    assert world.value("gw_calls_total", **ended, status="success", code="ok") == 2
    assert world.value("gw_calls_total", **ended, status="error", code="upstream_error") == 1
    assert world.value("gw_call_latency_seconds_count", **ended) == 3
    assert world.value("gw_call_latency_seconds_sum", **ended) == pytest.approx(0.9)


def test_rejected_call_does_not_count_as_a_quick_one(world: World) -> None:
    world.finish("rejected", "quota_exceeded", seconds=0.001)
    assert world.labels("gw_call_latency_seconds_count") == []


def test_call_of_no_known_model_is_of_another(world: World) -> None:
    world.metrics.call_finished(
        protocol="chat", model="", status="rejected", code="model_not_found", seconds=0.001
    )
    (labels,) = world.labels("gw_calls_total")
    assert labels["model"] == "other"


def test_first_byte_is_timed(world: World) -> None:
    world.metrics.first_byte(protocol="chat", model="gpt-5", seconds=0.2)
    labels = {"protocol": "chat", "model": "gpt-5"}
    assert world.value("gw_first_byte_seconds_bucket", **labels, le="0.25") == 1
    assert world.value("gw_first_byte_seconds_bucket", **labels, le="0.1") == 0


def test_kinds_of_tokens_do_not_overlap(world: World) -> None:
    world.metrics.tokens.settled(
        channel="c", model="m", input_tokens=100, cached_tokens=30, output_tokens=7
    )
    kinds = ("fresh_input", "cached_input", "output")
    assert [world.value("gw_tokens_total", model="m", kind=kind) for kind in kinds] == [70, 30, 7]
    labels = {"channel": "c", "model": "m"}
    assert world.value("gw_input_tokens_total", **labels) == 100
    assert world.value("gw_cached_input_tokens_total", **labels) == 30


def test_more_cached_tokens_than_input_do_not_raise(world: World) -> None:
    world.metrics.tokens.settled(
        channel="c", model="m", input_tokens=1, cached_tokens=30, output_tokens=0
    )
    assert world.value("gw_tokens_total", model="m", kind="cached_input") == 30
    assert len(world.labels("gw_tokens_total")) == 1


def test_cost_adds_up_exactly(world: World) -> None:
    for sold, bought in ((2**53, 2**53), (1, 2), (0, None), (1, 0)):
        world.metrics.costs.settled(
            channel="c", model="m", nano_usd=sold, upstream_nano_usd=bought, is_sold=True
        )
    assert world.value("gw_cost_nano_usd_total", model="m") == 2**53 + 2
    labels = {"channel": "c", "model": "m"}
    assert world.value("gw_upstream_cost_nano_usd_total", **labels) == 2**53 + 2
    assert world.value("gw_calls_below_cost_total", **labels) == 1
    assert world.value("gw_calls_of_unknown_cost_total", **labels) == 1


def test_call_that_failed_is_not_sold_below_its_cost(world: World) -> None:
    world.metrics.costs.settled(
        channel="c", model="m", nano_usd=0, upstream_nano_usd=5, is_sold=False
    )
    assert world.labels("gw_calls_below_cost_total") == []


def test_responses_are_counted_by_route_and_status(world: World) -> None:
    world.metrics.http_response(route="/v1/models", status=200)
    world.metrics.http_response(route="/v1/models", status=200)
    assert world.value("gw_http_responses_total", route="/v1/models", status="200") == 2


def test_money_events_move_their_series(world: World) -> None:
    metrics = world.metrics
    metrics.hold_latency(0.0003)
    metrics.settle_latency(0.003)
    metrics.ledger_batch(size=64, seconds=0.002)
    metrics.ledger_retry()
    metrics.holds(open_count=3, oldest_seconds=12.5, lease_seconds=2.0)
    metrics.hold_refused("insufficient_funds")
    metrics.idempotency("stored")
    metrics.settle_noop()
    metrics.recovery.recovered(50)
    metrics.recovery.corrected()
    assert world.value("gw_hold_latency_seconds_bucket", le="0.0005") == 1
    assert world.value("gw_hold_latency_seconds_bucket", le="0.0002") == 0
    assert world.value("gw_settle_latency_seconds_sum") == 0.003
    assert world.value("gw_ledger_batch_messages_bucket", le="64.0") == 1
    assert world.value("gw_ledger_batch_messages_bucket", le="32.0") == 0
    assert world.value("gw_ledger_batch_seconds_count") == 1
    assert world.value("gw_ledger_retries_total") == 1
    assert world.value("gw_holds_open") == 3
    assert world.value("gw_oldest_hold_seconds") == 12.5
    assert world.value("gw_oldest_lease_seconds") == 2.0
    assert world.value("gw_hold_refusals_total", reason="insufficient_funds") == 1
    assert world.value("gw_idempotency_total", standing="stored") == 1
    assert world.value("gw_settle_noops_total") == 1
    assert world.value("gw_calls_recovered_total") == 50
    assert world.value("gw_recoveries_corrected_total") == 1


def test_process_events_move_their_series(world: World) -> None:
    metrics = world.metrics
    metrics.mailbox(actor="channel", depth=3, wait_seconds=0.0001)
    metrics.actor_restarted("channel")
    metrics.taken_for_dead()
    assert world.value("gw_taken_for_dead_total") == 1
    metrics.loop_lag(0.02)
    metrics.cache(cache="keys", hit=True)
    metrics.cache(cache="keys", hit=False)
    metrics.limit_refused("rpm")
    metrics.database_up(True)
    assert world.value("gw_mailbox_depth_messages_sum", actor="channel") == 3
    assert world.value("gw_mailbox_wait_seconds_bucket", actor="channel", le="0.0002") == 1
    assert world.value("gw_actor_restarts_total", actor="channel") == 1
    assert world.value("gw_loop_lag_seconds_bucket", le="0.025") == 1
    assert world.value("gw_cache_lookups_total", cache="keys", result="hit") == 1
    assert world.value("gw_cache_lookups_total", cache="keys", result="miss") == 1
    assert world.value("gw_limit_refusals_total", dimension="rpm") == 1
    assert world.value("gw_database_up") == 1
    metrics.database_up(False)
    assert world.value("gw_database_up") == 0
    metrics.call_log_kept(True)
    assert world.value("gw_call_log_kept") == 1


def test_gateway_metrics_of_two_kinds_do_not_share_a_registry(world: World) -> None:
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        Metrics(world.registry)


def test_representation_tells_the_size(world: World) -> None:
    world.finish()
    world.use("a")
    assert repr(world.metrics) == "<Metrics 1 kinds of call 1 channels>"

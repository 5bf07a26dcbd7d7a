"""Every metric of the gateway: one method for each event, here or in one of the `groups`.

Names, labels and buckets are the table in `metric_families.py`. Methods take plain values, decide
nothing and never raise for an external value. They are called in the loop's thread; `render` may
run in another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder

from metrics.families import Families
from metrics.groups.budgets import BudgetMetrics
from metrics.groups.config import ConfigMetrics
from metrics.groups.database import DatabaseMetrics
from metrics.groups.events import EventMetrics
from metrics.groups.files import FileMetrics
from metrics.groups.knowledge import AgentMetrics, KnowledgeMetrics
from metrics.groups.mcp import McpMetrics
from metrics.groups.media import MediaStoreMetrics, TaskMetrics
from metrics.groups.recovery import RecoveryMetrics
from metrics.groups.response_models import ResponseModels
from metrics.groups.sales import SaleMetrics
from metrics.groups.webhooks import WebhookMetrics
from metrics.logs import lines_lost
from metrics.metric_families import FIRST_BYTE_SECONDS
from metrics.values import Number

CHANNEL_STATES: Final = ("closed", "open", "half_open")
# Outcomes of attempts that are no failure of the channel, as in the alerts.
NOT_FAILED: Final = frozenset({"ok", "rate_limited", "status_4xx", "cancelled"})


class Metrics:
    """The metrics of one process. Without a registry it makes its own, with process figures."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        if registry is None:
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
        make = Families()
        self._registry = registry
        self._in_flight = make.gauge("gw_calls_in_flight")
        self._calls = make.counter("gw_calls_total")
        self._calls_failed = make.counter("gw_calls_failed_total")
        self._call_latency = make.histogram("gw_call_latency_seconds")
        self._first_byte = make.histogram("gw_first_byte_seconds")
        self._output_token = make.histogram("gw_output_token_seconds")
        self.models = ResponseModels(make)
        self.sales = SaleMetrics(make)
        self._chain_calls = make.counter("gw_chain_calls_total")
        self._units = make.counter("gw_units_total")
        self._responses = make.counter("gw_http_responses_total")
        self._failures = make.counter("gw_http_failures_total")
        self._limit_refusals = make.counter("gw_limit_refusals_total")
        self._limits_degraded = make.gauge("gw_limits_degraded")[()]
        # The duration of one batch of limit commands.
        self.limits_asked = make.histogram("gw_limits_shared_seconds")[()].observe
        self._attempts = make.counter("gw_attempts_total")
        self._attempt_seconds = make.histogram("gw_attempt_seconds")
        self._channel_state = make.gauge("gw_channel_state")
        self._channel_transitions = make.counter("gw_channel_transitions_total")
        self._key_refusals = make.counter("gw_channel_key_refusals_total")
        self._key_rests = make.counter("gw_channel_key_rests_total")
        self._slots_in_use = make.gauge("gw_channel_slots_in_use")
        self._slots_limit = make.gauge("gw_channel_slots_limit")
        self._holds_open = make.gauge("gw_holds_open")[()]
        self._oldest_hold = make.gauge("gw_oldest_hold_seconds")[()]
        self._oldest_lease = make.gauge("gw_oldest_lease_seconds")[()]
        # The time until a hold was answered, and until a settlement was committed.
        self.hold_latencies = make.histogram("gw_hold_latency_seconds")[()].observe_all
        self.settle_latencies = make.histogram("gw_settle_latency_seconds")[()].observe_all
        self._hold_refusals = make.counter("gw_hold_refusals_total")
        self._others = make.counter("gw_attribution_other_total")
        self.budgets = BudgetMetrics(make)
        self._idempotency = make.counter("gw_idempotency_total")
        self._settle_noops = make.counter("gw_settle_noops_total")[()]
        self.recovery = RecoveryMetrics(make)
        self._taken_for_dead = make.counter("gw_taken_for_dead_total")[()]
        self._batch_messages = make.histogram("gw_ledger_batch_messages")[()]
        self._batch_seconds = make.histogram("gw_ledger_batch_seconds")[()]
        self._ledger_retries = make.counter("gw_ledger_retries_total")[()]
        self._quarantined = make.gauge("gw_quarantined_messages")[()]
        self._proved_at = make.gauge("gw_ledger_proof_timestamp_seconds")[()]
        self._proof_faults = make.gauge("gw_ledger_proof_faults")[()]
        self._unpriced = make.counter("gw_unpriced_usage_total")
        self._usage_doubted = make.counter("gw_usage_doubted_total")
        self._bytes_left_out = make.counter("gw_precharge_bytes_left_out_total")
        self.tasks = TaskMetrics(make)
        self.media_store = MediaStoreMetrics(make)
        self.knowledge = KnowledgeMetrics(make)
        self.agents = AgentMetrics(make)
        self.mcp = McpMetrics(make)
        self._build = make.gauge("gw_build_info")
        self.config = ConfigMetrics(make)
        self._database_up = make.gauge("gw_database_up")[()]
        self.database = DatabaseMetrics(make)
        self.files = FileMetrics(make)
        self.events = EventMetrics(make)
        self.webhooks = WebhookMetrics(make)
        self._call_log_kept = make.gauge("gw_call_log_kept")[()]
        self._mailbox_depth = make.histogram("gw_mailbox_depth_messages")
        self._mailbox_wait = make.histogram("gw_mailbox_wait_seconds")
        self._actor_restarts = make.counter("gw_actor_restarts_total")
        self._log_lines_lost = make.counter("gw_log_lines_lost_total")[()]
        spans = make.counter("gw_trace_spans_total")
        # Both made here: the exporter's thread adds to them and must not make series.
        self._spans_exported, self._spans_failed = spans[("exported",)], spans[("failed",)]
        # The lag of the event loop; how long work waited for it, or for room in a ledger's batch.
        self.loop_lag = make.histogram("gw_loop_lag_seconds")[()].observe
        self.queue_delay = make.histogram("gw_queue_delay_seconds")[()].observe
        self._overloaded = make.gauge("gw_overloaded")[()]
        self._calls_shed = make.counter("gw_calls_shed_total")
        self._refusals_unrecorded = make.counter("gw_refusals_unrecorded_total")
        self._cache_lookups = make.counter("gw_cache_lookups_total")
        registry.register(make)
        # The last state of each channel; that of a removed one is kept, but not shown.
        self._states: dict[str, str] = {}
        self._removed: set[str] = set()

    # Calls

    def call_started(self, protocol: str) -> None:
        """Count a call being served. Exactly one `call_finished` of the same protocol follows."""
        self._in_flight[(protocol,)].value += 1

    def call_finished(
        self,
        protocol: str,
        model: str,
        status: str,
        code: str,
        seconds: float,
        trace_id: str | None = None,
    ) -> None:
        """Count a finished call: success, error, interrupted or rejected.

        `trace_id`, here and below, is that of a traced call: an exemplar of its bucket.

        The time of a rejected call is left out of the latency: refusals take a millisecond and
        would hide a slow response behind many quick ones.
        """
        self._in_flight[(protocol,)].value -= 1
        self._calls[protocol, model, status, code].value += 1
        if status != "rejected":
            self._call_latency[(protocol,)].observe(seconds, trace_id)

    def call_failed(self, *, model: str, fault: str) -> None:
        """Count an admitted request that failed through no fault of its client."""
        self._calls_failed[model, fault].value += 1

    def first_byte(
        self, protocol: str, model: str, seconds: float, trace_id: str | None = None
    ) -> None:
        """Observe the time to the first byte of a response."""
        self._first_byte[protocol, model].observe(seconds, trace_id)

    def output_token(self, model: str, seconds: float) -> None:
        """Observe the time per token after the first byte of a successful stream."""
        self._output_token[(model,)].observe(seconds)

    def units(self, *, model: str, unit: str, count: int) -> None:
        """Count the units of a settled call: images, seconds of video, …"""
        self._units[model, unit].value += count

    def chain_served(self, *, chain: str, model: str) -> None:
        """Count a response to a call of a chain, given by this model of it."""
        self._chain_calls[chain, model].value += 1

    def http_response(self, *, route: str, status: int) -> None:
        """Count a response of any endpoint; `route` is the handler's label, never a path."""
        self._responses[route, status].value += 1

    def routes_served(self, routes: Iterable[str]) -> None:
        """Show the failures of these routes from the start: a rate needs the 0 before the first."""
        for route in routes:
            self._failures[(route,)].value += 0

    def http_failure(self, *, route: str) -> None:
        """Count a request that failed by the gateway's own fault, whatever was sent by then."""
        self._failures[(route,)].value += 1

    def limit_refused(self, dimension: str) -> None:
        """Count a refusal by an account's limit: rpm or concurrency."""
        self._limit_refusals[(dimension,)].value += 1

    def limits_degraded(self, degraded: bool) -> None:
        """Set whether each process applies limits alone, because the shared backend is down."""
        self._limits_degraded.value = degraded

    # Channels

    def attempt(
        self, channel: str, outcome: str, seconds: float, trace_id: str | None = None
    ) -> None:
        """Count an attempt: ok, rate_limited, status_4xx, status_5xx, timeout, cut, cancelled, …"""
        if channel not in self._removed:
            self._attempts[channel, outcome].value += 1
            self._attempt_seconds[(channel,)].observe(seconds, trace_id)

    def channel_state(self, *, channel: str, state: str) -> None:
        """Set the state of a channel's breaker. The first report is not a transition."""
        assert state in CHANNEL_STATES, state
        before = self._states.get(channel)
        self._states[channel] = state
        if channel not in self._removed:
            if before not in (None, state):
                self._channel_transitions[channel, state].value += 1
            self._show_state(channel, state)

    def channel_slots(self, *, channel: str, limit: int) -> Number:
        """Set the slots of a channel; return those in use. A removed channel is added again."""
        self._slots_limit[(channel,)].value = limit
        if channel in self._removed:
            self._removed.discard(channel)
            self._show_state(channel, self._states.get(channel, "closed"))
        return self._slots_in_use[(channel,)]

    def channel_key_refused(self, *, channel: str, key: int, status: int) -> None:
        """Count a refused key of this channel; keys count from 1."""
        if channel not in self._removed:
            self._key_refusals[channel, str(key), str(status)].value += 1

    def channel_key_rests(self, *, channel: str, key: int) -> None:
        """Count a rest of a key of this channel; keys count from 1."""
        if channel not in self._removed:
            self._key_rests[channel, str(key)].value += 1

    def channel_removed(self, channel: str) -> None:
        """Drop the series of a channel that was removed from the configuration.

        Attempts still under way on it are not counted, or each reload would leave series behind.
        """
        self._removed.add(channel)
        for counters in (
            *(self._attempts, self._channel_transitions),
            *(self._key_refusals, self._key_rests),
        ):
            counters.discard({0: channel})
        for gauges in (self._channel_state, self._slots_in_use, self._slots_limit):
            gauges.discard({0: channel})
        self._attempt_seconds.discard({0: channel})

    def _show_state(self, channel: str, state: str) -> None:
        for one in CHANNEL_STATES:
            self._channel_state[channel, one].value = one == state

    # Money

    def ledger_batch(self, *, size: int, seconds: float) -> None:
        """Observe one committed ledger transaction of `size` messages."""
        self._batch_messages.observe(size)
        self._batch_seconds.observe(seconds)

    def ledger_retry(self) -> None:
        """Count a batch that is repeated because the database was lost."""
        self._ledger_retries.value += 1

    def bytes_not_held_for(self, *, model: str, count: int) -> None:
        """Count the bytes of an admitted body beyond those that its hold covers."""
        self._bytes_left_out[(model,)].value += count

    def usage_unpriced(self, *, model: str, what: str) -> bool:
        """Count a usage with a part without price; return whether it is the first of its kind."""
        series = self._unpriced[(model, what)]
        series.value += 1
        return series.value == 1

    def usage_doubted(self, *, channel: str, what: str) -> None:
        """Count a count of an upstream that is not possible."""
        self._usage_doubted[(channel, what)].value += 1

    def holds(self, *, open_count: int, oldest_seconds: float, lease_seconds: float) -> None:
        """Set open holds of processes in the database, and the oldest lease, as last counted."""
        self._oldest_lease.value = lease_seconds
        self._holds_open.value = open_count
        self._oldest_hold.value = oldest_seconds

    def ledger_proved(self, *, at: float, faults: int) -> None:
        """Set the Unix time of the ledger's last proof, and its number of faulty rows."""
        self._proved_at.value = at
        self._proof_faults.value = faults

    def quarantined(self, count: int) -> None:
        """Set how many messages that the ledger refused nobody has booked."""
        self._quarantined.value = count

    def hold_refused(self, reason: str) -> None:
        """Count a refused hold."""
        self._hold_refusals[(reason,)].value += 1

    def attributed_as_other(self, what: str) -> None:
        """Count a value that a row has as `other`; `what` of a label may have its key."""
        self._others[(what.partition(".")[0],)].value += 1

    def idempotency(self, state: str) -> None:
        """Count an idempotency key in use: stored (replayed), in_flight, reuse or too_large."""
        self._idempotency[(state,)].value += 1

    def settle_noop(self) -> None:
        """Count a call that was settled again, which changes nothing."""
        self._settle_noops.value += 1

    # The process

    def release(self, version: str) -> None:
        """Show the running version."""
        self._build[(version,)].value = 1

    def taken_for_dead(self) -> None:
        """Count that others have declared this process dead; it continues under another id."""
        self._taken_for_dead.value += 1

    def call_log_kept(self, is_kept: bool) -> None:
        """Set whether the last round over the call log's months was complete."""
        self._call_log_kept.value = int(is_kept)

    def mailbox(self, *, actor: str, depth: int, wait_seconds: float) -> None:
        """Observe a batch of `depth` messages of an actor, the oldest of which waited so long."""
        self._mailbox_depth[(actor,)].observe(depth)
        self._mailbox_wait[(actor,)].observe(wait_seconds)

    def actor_restarted(self, actor: str) -> None:
        """Count a restart of an actor of this kind by the supervisor."""
        self._actor_restarts[(actor,)].value += 1

    def spans_exported(self, count: int, *, is_taken: bool) -> None:
        """Count exported spans, or lost ones. Called in the exporter's thread."""
        (self._spans_exported if is_taken else self._spans_failed).value += count

    def overloaded(self, is_overloaded: bool) -> None:
        """Set whether calls are refused because of that delay."""
        self._overloaded.value = is_overloaded

    def call_shed(self, route: str) -> None:
        """Count a call refused by its head, because the process is overloaded."""
        self._calls_shed[(route,)].value += 1

    def refusal_without_row(self, code: str) -> None:
        """Count a refused call of an account that has as many rows of them as a minute may have."""
        self._refusals_unrecorded[(code,)].value += 1

    def cache(self, *, cache: str, hit: bool) -> None:
        """Count a lookup in a cache."""
        self._cache_lookups[cache, "hit" if hit else "miss"].value += 1

    def database_up(self, up: bool) -> None:
        """Set whether the database is available."""
        self._database_up.value = up

    # The scrape

    def totals(self) -> Totals:
        """Sum the figures that the console shows live; read once a second, independent of calls."""
        first_bytes = [0] * (len(FIRST_BYTE_SECONDS) + 1)
        for _, series in self._first_byte.shown():
            first_bytes = [a + b for a, b in zip(first_bytes, series.counts, strict=True)]
        totals = Totals(first_bytes=first_bytes)
        for (_, _, status, _), number in self._calls.shown():
            totals.calls += int(number.value)
            totals.errors += int(number.value) if status in ("error", "interrupted") else 0
        totals.in_flight = sum(int(number.value) for _, number in self._in_flight.shown())
        for (_, model), sold in self.sales.sold.shown():
            totals.cost_nano_usd += sold.nano_usd
            totals.input_tokens += sold.input_tokens
            totals.cached_tokens[model] += sold.cached_input
        for (channel, outcome), number in self._attempts.shown():
            totals.attempts[channel] += int(number.value)
            totals.failures[channel] += 0 if outcome in NOT_FAILED else int(number.value)
        for (channel,), distribution in self._attempt_seconds.shown():
            totals.seconds[channel] = distribution.total
        return totals

    def conditions(self, now: float) -> list[str]:
        """Return the alerts that gauges of this process raise, by the names of their runbooks."""
        gauges = (
            ("limits_degraded", self._limits_degraded.value),
            ("call_log_unkept", not self._call_log_kept.value),
            ("calls_shed", self._overloaded.value),
            ("settlement_quarantined", self._quarantined.value),
        )
        return [
            *(name for name, holds in gauges if holds),
            *self.budgets.conditions(),
            *self.config.conditions(now),
        ]

    def render(self, accept: str) -> tuple[bytes, str]:
        """Return body and content type for an Accept header; OpenMetrics if requested."""
        self._log_lines_lost.value = lines_lost()
        self.database.read()
        self.files.read()
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # an invalid version
            encode, content_type = generate_latest, CONTENT_TYPE_PLAIN_0_0_4
        return encode(self._registry), content_type


@dataclass(slots=True)
class Totals:
    """Calls since the start of the process; a failed attempt may be followed by another."""

    first_bytes: list[int]  # in each bucket, and above
    calls: int = 0
    errors: int = 0
    cost_nano_usd: int = 0
    in_flight: int = 0
    input_tokens: int = 0
    cached_tokens: Counter[str] = field(default_factory=Counter)  # by model
    attempts: Counter[str] = field(default_factory=Counter)  # by channel
    failures: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)  # of its attempts

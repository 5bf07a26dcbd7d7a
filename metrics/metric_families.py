"""The one table of the gateway's metric families: name, type, labels, buckets, meaning.

A reference for dashboards and alerts. `prometheus.py` has the events. Tests compare the table with
a snapshot, so that a renamed one is noticed in review before it breaks existing dashboards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]

# Upper bounds in seconds. Each bucket is one line per series and scrape, so they are few: about
# three per decade where the response matters, fewer outside. Chat ends after 180 s, images after
# 280. Only the first byte is kept by protocol and model at once: each pair is a whole histogram.
CALL_SECONDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 300)
FIRST_BYTE_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180)
LEDGER_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
WAIT_SECONDS = (0.00005, 0.0002, 0.001, 0.005, 0.02, 0.1, 0.5, 2, 10)
LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
PAGE_COUNTS = (0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
# The ledger writer takes at most 256 messages at once; its mailbox holds more.
BATCH_MESSAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# A job takes seconds to minutes, at most a day; polls are delayed by the wait for their turn.
TASK_SECONDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 7200, 86400)
POLL_LAG_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 300)
# From a model with a thousand tokens per second to one too slow to read.
OUTPUT_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.5, 1)
# Waits for a connection when none was free; five seconds at most.
CONNECTION_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 1, 2.5, 5)
DEPTH_MESSAGES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096)


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric family. `name` is the exposed one, with `_total` on counters."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


METRIC_FAMILIES: tuple[MetricFamily, ...] = (
    # Calls: what clients see.
    MetricFamily("gw_calls_in_flight", "gauge", ("protocol",), "Calls being served."),
    MetricFamily(
        "gw_calls_total",
        "counter",
        ("protocol", "model", "status", "code"),
        "Calls ended, by how: success, error, interrupted or rejected, and the code of the answer.",
    ),
    MetricFamily(
        "gw_calls_failed_total",
        "counter",
        ("model", "fault"),
        "Calls let in that failed by no doing of their client: upstream, timeout, gateway.",
    ),
    MetricFamily(
        "gw_call_latency_seconds",
        "histogram",
        ("protocol",),
        "From the start of a call to its settlement.",
        CALL_SECONDS,
    ),
    MetricFamily(
        "gw_first_byte_seconds",
        "histogram",
        ("protocol", "model"),
        "From the start of a call to the first byte of its answer.",
        FIRST_BYTE_SECONDS,
    ),
    MetricFamily(
        "gw_output_token_seconds",
        "histogram",
        ("model",),
        "Streams that succeeded: from the first byte to the end, by the tokens after the first.",
        OUTPUT_TOKEN_SECONDS,
    ),
    MetricFamily(
        "gw_response_models_total",
        "counter",
        ("requested", "model", "answered"),
        "Responses by the name asked for, its model, and the name that the upstream gave.",
    ),
    MetricFamily(
        "gw_chain_calls_total",
        "counter",
        ("chain", "model"),
        "Calls of a chain that had a response, by the model of it that gave it.",
    ),
    MetricFamily(
        "gw_tokens_total",
        "counter",
        ("model", "kind"),
        "Tokens settled, in kinds that do not overlap: fresh_input, cached_input, output.",
    ),
    MetricFamily(
        "gw_input_tokens_total",
        "counter",
        ("channel", "model"),
        "Input tokens settled, cached ones included, by the channel that gave the response.",
    ),
    MetricFamily(
        "gw_cached_input_tokens_total",
        "counter",
        ("channel", "model"),
        "Those of them that the upstream read from its cache.",
    ),
    MetricFamily(
        "gw_units_total",
        "counter",
        ("model", "unit"),
        "Pieces settled, by the unit that the model is billed by: image, video, ...",
    ),
    MetricFamily(
        "gw_cost_nano_usd_total", "counter", ("model",), "Cost settled, in billionths of a USD."
    ),
    MetricFamily(
        "gw_upstream_cost_nano_usd_total",
        "counter",
        ("channel", "model"),
        "What calls cost the operator at their upstreams, in billionths of a USD.",
    ),
    MetricFamily(
        "gw_calls_below_cost_total",
        "counter",
        ("channel", "model"),
        "Calls that were charged less than they cost the operator.",
    ),
    MetricFamily(
        "gw_calls_of_unknown_cost_total",
        "counter",
        ("channel", "model"),
        "Calls whose cost at the upstream is not known: no price list has it.",
    ),
    MetricFamily(
        "gw_http_responses_total", "counter", ("route", "status"), "Responses sent, all routes."
    ),
    MetricFamily(
        "gw_http_failures_total",
        "counter",
        ("route",),
        "Requests that failed by the gateway's own fault: its program, its database or its disk.",
    ),
    MetricFamily(
        "gw_limit_refusals_total",
        "counter",
        ("dimension",),
        "Requests refused by an account's limit: rpm or concurrency.",
    ),
    MetricFamily(
        "gw_limits_degraded",
        "gauge",
        (),
        "1 while limits hold in each process alone: Redis, or the parent, does not answer; else 0.",
    ),
    MetricFamily(
        "gw_limits_shared_seconds",
        "histogram",
        (),
        "One batch of questions about limits to Redis, or the parent, and back.",
        LEDGER_SECONDS,
    ),
    # Channels: what the upstreams do.
    MetricFamily(
        "gw_attempts_total",
        "counter",
        ("channel", "outcome"),
        "Attempts on a channel, by outcome: ok, rate_limited, status_4xx, status_5xx, timeout, ...",
    ),
    MetricFamily(
        "gw_attempt_seconds",
        "histogram",
        ("channel",),
        "From the lease of a channel to its return.",
        CALL_SECONDS,
    ),
    MetricFamily(
        "gw_channel_state",
        "gauge",
        ("channel", "state"),
        "1 for the state the breaker is in, 0 for the others: closed, open, half_open.",
    ),
    MetricFamily(
        "gw_channel_transitions_total",
        "counter",
        ("channel", "state"),
        "Changes of the breaker, by the state it went to.",
    ),
    MetricFamily(
        "gw_channel_key_refusals_total",
        "counter",
        ("channel", "key", "status"),
        "Refusals of a channel's key, by its number in the order of the file.",
    ),
    MetricFamily(
        "gw_channel_key_rests_total",
        "counter",
        ("channel", "key"),
        "Rests of a channel's key after a 429, by its number in the order of the file.",
    ),
    MetricFamily("gw_channel_slots_in_use", "gauge", ("channel",), "Slots leased."),
    MetricFamily("gw_channel_slots_limit", "gauge", ("channel",), "Slots there are."),
    # Money.
    MetricFamily(
        "gw_holds_open",
        "gauge",
        (),
        "Holds of calls open in the database, of every process, but for those in the quarantine.",
    ),
    MetricFamily(
        "gw_oldest_hold_seconds", "gauge", (), "Age of the oldest of them; 0 without one."
    ),
    MetricFamily(
        "gw_oldest_lease_seconds",
        "gauge",
        (),
        "Since the last heartbeat of a process that leases part of a balance; 0 without one.",
    ),
    MetricFamily(
        "gw_hold_latency_seconds",
        "histogram",
        (),
        "From asking for a hold to its answer.",
        LEDGER_SECONDS,
    ),
    MetricFamily(
        "gw_settle_latency_seconds",
        "histogram",
        (),
        "From the end of a call to the commit of its settlement.",
        LEDGER_SECONDS,
    ),
    MetricFamily("gw_hold_refusals_total", "counter", ("reason",), "Holds refused, by reason."),
    MetricFamily(
        "gw_attribution_other_total",
        "counter",
        ("what",),
        "Values that rows have as `other`, of end users, sessions, runs or labels.",
    ),
    MetricFamily(
        "gw_budget_holds_total",
        "counter",
        ("scope", "outcome"),
        "Holds on budgets: leased (out of memory), asked (of the ledger) or refused.",
    ),
    MetricFamily(
        "gw_budget_excess_usd_total",
        "counter",
        (),
        "By how much the costs of calls passed their own holds on budgets.",
    ),
    MetricFamily(
        "gw_budget_overshoot_usd",
        "gauge",
        (),
        "The most by which spent + held - excess of a budget passed the limit then in force; 0.",
    ),
    MetricFamily(
        "gw_budget_phantom_refusals",
        "gauge",
        (),
        "Refusals by a budget whose own figures would have admitted the call; 0.",
    ),
    MetricFamily(
        "gw_idempotency_total",
        "counter",
        ("standing",),
        "Requests whose idempotency key was not free, by what stood there: stored is a replay.",
    ),
    MetricFamily(
        "gw_settle_noops_total", "counter", (), "Settlements of a call that was settled already."
    ),
    MetricFamily(
        "gw_calls_recovered_total", "counter", (), "Calls of a lost process settled by this one."
    ),
    MetricFamily(
        "gw_recoveries_corrected_total",
        "counter",
        (),
        "Calls that another process had settled for this one, corrected to their true cost.",
    ),
    MetricFamily(
        "gw_recorder_up", "gauge", (), "1 when what calls have delivered outlives a killed process."
    ),
    MetricFamily(
        "gw_calls_unrecorded_total",
        "counter",
        (),
        "Streams and settlements that the flight recorder had no room for.",
    ),
    MetricFamily(
        "gw_recorder_damage_total",
        "counter",
        (),
        "Damaged parts (head, slots) of flight recorders that dead processes left.",
    ),
    MetricFamily(
        "gw_taken_for_dead_total", "counter", (), "Times other processes took this one for dead."
    ),
    MetricFamily(
        "gw_ledger_batch_messages",
        "histogram",
        (),
        "Holds and settlements in one transaction.",
        BATCH_MESSAGES,
    ),
    MetricFamily(
        "gw_ledger_batch_seconds", "histogram", (), "Duration of one transaction.", LEDGER_SECONDS
    ),
    MetricFamily(
        "gw_ledger_retries_total",
        "counter",
        (),
        "Batches sent again because the database went away.",
    ),
    MetricFamily(
        "gw_ledger_proof_timestamp_seconds",
        "gauge",
        (),
        "When `gw ledger verify` last ran on the database, by whomever; 0 when it never did.",
    ),
    MetricFamily(
        "gw_ledger_proof_faults",
        "gauge",
        (),
        "Rows that broke an invariant of the ledger then.",
    ),
    MetricFamily(
        "gw_quarantined_messages",
        "gauge",
        (),
        "Settlements and rows that the ledger refused and nobody has booked, of every process.",
    ),
    MetricFamily(
        "gw_unpriced_usage_total",
        "counter",
        ("model", "what"),
        "Calls whose upstream reported what costs more elsewhere, and has no price here.",
    ),
    MetricFamily(
        "gw_usage_doubted_total",
        "counter",
        ("channel", "what"),
        "Counts of upstreams that are not possible; an estimate was charged.",
    ),
    MetricFamily(
        "gw_precharge_bytes_left_out_total",
        "counter",
        ("model",),
        "Bytes of request bodies that no hold was made for, because only the conversation counts.",
    ),
    # Asynchronous jobs.
    MetricFamily(
        "gw_tasks_in_flight", "gauge", ("kind",), "Tasks open in the database, of every process."
    ),
    MetricFamily(
        "gw_tasks_total", "counter", ("kind", "status"), "Tasks ended, by their last status."
    ),
    MetricFamily(
        "gw_task_seconds",
        "histogram",
        ("kind",),
        "From the submission of a task to its end.",
        TASK_SECONDS,
    ),
    MetricFamily(
        "gw_task_polls_total",
        "counter",
        ("channel", "outcome"),
        "Polls: ok, rate_limited, not_found, error, timeout, unreachable.",
    ),
    MetricFamily(
        "gw_task_poll_lag_seconds",
        "histogram",
        (),
        "From when a poll was due until it was done.",
        POLL_LAG_SECONDS,
    ),
    MetricFamily(
        "gw_task_submit_unknown_total",
        "counter",
        ("channel",),
        "Submissions of which nobody knows whether the upstream took them.",
    ),
    MetricFamily(
        "gw_task_lengths_doubted_total",
        "counter",
        ("channel",),
        "Films settled at their hold because the upstream reports a length that no film has.",
    ),
    MetricFamily(
        "gw_task_takeovers_total",
        "counter",
        (),
        "Polls made again because the process that had begun them never finished.",
    ),
    # Copies of results of tasks.
    MetricFamily(
        "gw_media_copies_total",
        "counter",
        ("outcome",),
        "Attempts to copy a result: kept, retried, failed for good, left to another process.",
    ),
    MetricFamily("gw_media_copy_bytes_total", "counter", (), "Bytes of results that were fetched."),
    # Knowledge bases.
    MetricFamily(
        "gw_kb_searches_total",
        "counter",
        ("surface", "result"),
        "Searches by what they find: pages with all terms, pages with any, or none.",
    ),
    MetricFamily(
        "gw_kb_search_seconds", "histogram", ("surface",), "How long a search takes.", LAG_SECONDS
    ),
    MetricFamily(
        "gw_kb_source_links_total",
        "counter",
        ("result",),
        "Links to source documents followed: served, expired, invalid, missing.",
    ),
    MetricFamily(
        "gw_stray_source_accounts",
        "gauge",
        (),
        "Accounts with sources that no page names and that could not be removed when last tried.",
    ),
    # Agents.
    MetricFamily(
        "gw_agent_calls_total",
        "counter",
        ("outcome",),
        "Calls with agents' keys: ok, failed, or why they were refused: disabled, no_model, ...",
    ),
    MetricFamily(
        "gw_agent_retrieval_seconds",
        "histogram",
        (),
        "How long knowledge bases are read for a call, the wait for a connection with it.",
        LAG_SECONDS,
    ),
    MetricFamily(
        "gw_agent_pages_injected",
        "histogram",
        (),
        "Pages of knowledge bases put into a call that searched them.",
        PAGE_COUNTS,
    ),
    MetricFamily(
        "gw_mcp_requests_total",
        "counter",
        ("method", "tool", "outcome"),
        "Messages of MCP clients: ok, tool_error, error, refused.",
    ),
    MetricFamily(
        "gw_mcp_seconds",
        "histogram",
        ("method", "tool"),
        "How long a message of an MCP client takes.",
        LAG_SECONDS,
    ),
    # The process.
    MetricFamily("gw_build_info", "gauge", ("version",), "1 for the version that runs."),
    MetricFamily(
        "gw_config_reloads_total",
        "counter",
        ("outcome",),
        "Configurations read again: accepted, or refused as a whole.",
    ),
    MetricFamily(
        "gw_config_last_reload_successful",
        "gauge",
        (),
        "1 while what was read last is in force, 0 after a file that was refused.",
    ),
    MetricFamily(
        "gw_config_last_success_timestamp_seconds",
        "gauge",
        (),
        "When the configuration in force was read.",
    ),
    MetricFamily(
        "gw_certificate_expiry_timestamp_seconds",
        "gauge",
        (),
        "When the first certificate of the chain that clients are shown expires; 0 without TLS.",
    ),
    MetricFamily(
        "gw_database_up", "gauge", (), "1 while the database answers the heartbeat, else 0."
    ),
    MetricFamily(
        "gw_database_connections",
        "gauge",
        ("pool", "state"),
        "Connections of a pool: in_use, idle, and the limit of both together.",
    ),
    MetricFamily(
        "gw_database_wait_seconds",
        "histogram",
        ("pool",),
        "How long statements waited that found every connection of their pool in use.",
        CONNECTION_SECONDS,
    ),
    MetricFamily(
        "gw_database_refusals_total",
        "counter",
        ("sqlstate",),
        "Statements that PostgreSQL refused for its own state: read-only, a full disk, a missing "
        "right or function.",
    ),
    MetricFamily(
        "gw_files",
        "gauge",
        ("part",),
        "Open files: clients, handshakes, admin, upstreams, database; the limit and its reserve.",
    ),
    MetricFamily(
        "gw_files_freed_total",
        "counter",
        ("part",),
        "Idle connections closed because their files were needed, by the part that gave way.",
    ),
    MetricFamily(
        "gw_http_connections",
        "gauge",
        ("state",),
        "Clients' connections: handshaking, in_use, idle, leaving; the limit of in_use and idle.",
    ),
    MetricFamily(
        "gw_http_connections_refused_total",
        "counter",
        ("reason",),
        "Clients' connections refused: as many as may be of connections, or of files.",
    ),
    MetricFamily(
        "gw_call_log_kept",
        "gauge",
        (),
        "1 while the call log's months are made ahead and dropped in time, else 0.",
    ),
    MetricFamily(
        "gw_events_total",
        "counter",
        ("type",),
        "Events written, by type; each is counted by one process.",
    ),
    MetricFamily(
        "gw_webhook_deliveries_total",
        "counter",
        ("outcome",),
        "Attempts to send an event, by the status of the response, or timeout, unreachable, ...",
    ),
    MetricFamily(
        "gw_webhook_pending",
        "gauge",
        (),
        "Deliveries pending of all webhooks that are enabled; every process states the same.",
    ),
    MetricFamily(
        "gw_webhook_lag_seconds",
        "gauge",
        (),
        "How long the oldest event that an enabled webhook was not sent yet has waited.",
    ),
    MetricFamily(
        "gw_webhook_dead_total",
        "counter",
        (),
        "Deliveries that failed so often that they are not tried again.",
    ),
    MetricFamily(
        "gw_mailbox_depth_messages",
        "histogram",
        ("actor",),
        "Messages an actor finds when it looks into its mailbox.",
        DEPTH_MESSAGES,
    ),
    MetricFamily(
        "gw_mailbox_wait_seconds",
        "histogram",
        ("actor",),
        "How long the oldest of them has waited.",
        WAIT_SECONDS,
    ),
    MetricFamily(
        "gw_actor_restarts_total", "counter", ("actor",), "Actors restarted after an error."
    ),
    MetricFamily(
        "gw_log_lines_lost_total",
        "counter",
        (),
        "Log lines that could not be written: nobody reads them, or the disk is full.",
    ),
    MetricFamily(
        "gw_trace_spans_total",
        "counter",
        ("outcome",),
        "Spans handed to the collector, by outcome: exported, or failed, which loses them.",
    ),
    MetricFamily(
        "gw_loop_lag_seconds", "histogram", (), "Scheduling delay of the loop.", LAG_SECONDS
    ),
    MetricFamily(
        "gw_queue_delay_seconds",
        "histogram",
        (),
        "How long work waits for the loop or for room in a batch, as admission measures it.",
        LAG_SECONDS,
    ),
    MetricFamily(
        "gw_overloaded", "gauge", (), "1 while calls are refused because of the delay, else 0."
    ),
    MetricFamily(
        "gw_calls_shed_total",
        "counter",
        ("route",),
        "Calls refused by their head because the process was overloaded; they have no row.",
    ),
    MetricFamily(
        "gw_refusals_unrecorded_total",
        "counter",
        ("code",),
        "Refused calls without a row, because their account had a thousand within the minute.",
    ),
    MetricFamily(
        "gw_cache_lookups_total", "counter", ("cache", "result"), "Cache lookups: hit or miss."
    ),
)

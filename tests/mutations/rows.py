"""The defects: each a small slip in money, limits or translation, and the tests that must fail.

The source text occurs exactly once in its folder, which a tidy test checks.
"""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]

SIMULATION = "tests.simulation --seeds 20"
SUFFIXES = {".py", ".sql", ".lua"}


class Mutation(NamedTuple):
    """One defect. `tests` are the arguments of `python -m pytest`, or `tests.simulation …`."""

    name: str
    folder: str
    source: str
    replacement: str
    tests: str

    def path(self, root: Path = ROOT) -> Path:
        """The file that is changed. Raises LookupError when the text is not there exactly once."""
        files = sorted((root / self.folder).rglob("*"))
        texts = {
            path: path.read_text(encoding="utf-8") for path in files if path.suffix in SUFFIXES
        }
        found = [path for path, text in texts.items() if self.source in text]
        count = sum(texts[path].count(self.source) for path in found)
        if count != 1:
            raise LookupError(f"{self.name}: {self.folder} has {count} times {self.source!r}")
        return found[0]


MUTATIONS = (
    # Prices.
    Mutation(
        "rounding",
        "actors",
        "(2 * numerator + denominator) // (2 * denominator)",
        "numerator // denominator",
        SIMULATION,
    ),
    Mutation(
        "cached-as-fresh",
        "actors",
        "self.cached_input * cached + self",
        "self.fresh_input * cached + self",
        SIMULATION,
    ),
    Mutation(
        "cache-write-price",
        "actors",
        "write = price.cache_write if price.cache_write is not None else fresh",
        "write = price.cache_write if price.cache_write is not None else cached",
        "tests/unit/wallet/test_prices.py::test_missing_price_of_the_cache_is_the_input_price",
    ),
    Mutation(
        "multiplier-ignored",
        "actors",
        "times, over = multiplier.as_integer_ratio()",
        "times, over = 1, 1",
        "tests/unit/wallet/test_prices.py::test_every_token_is_priced_once",
    ),
    Mutation(
        "cost-beyond-ledger",
        "actors",
        "return MAX_NANO_USD if cost > MAX_NANO_USD else cost",
        "return cost",
        "tests/unit/wallet/test_receipt.py::test_nothing_is_charged_beyond_what_the_ledger_holds",
    ),
    Mutation(
        "image-threshold",
        "actors",
        "pixels > self.threshold_pixels",
        "pixels >= self.threshold_pixels",
        "tests/unit/wallet/test_prices.py::test_more_than_the_threshold_is_large",
    ),
    Mutation(
        "references-alone",
        "actors",
        "if not standard + large:",
        "if not standard + large + references:",
        "tests/unit/wallet/test_prices.py::test_references_without_an_image_are_free",
    ),
    Mutation(
        "seconds-as-milliseconds",
        "actors",
        '"per_second": 1000,',
        '"per_second": 1,',
        "tests/unit/media/test_bills.py::test_price_follows_the_resolution",
    ),
    # What is held and charged.
    Mutation(
        "unfinished-is-free",
        "gw",
        "self.meter is not None and first_byte_seconds is not None",
        "self.meter is not None and self.meter.finished and first_byte_seconds is not None",
        SIMULATION,
    ),
    Mutation(
        "estimate-rounded-down",
        "gw",
        "return -(-count // BYTES_PER_TOKEN)",
        "return count // BYTES_PER_TOKEN",
        "tests/unit/calls/test_settlement.py::test_balance_that_covers_the_estimate_exactly_admits",
    ),
    Mutation(
        "default-maximum-unbounded",
        "gw",
        "max_tokens = min(ceiling, token_charge.OUTPUT_TOKENS_DEFAULT_MAX)",
        "max_tokens = ceiling",
        "tests/unit/calls/test_bills.py::test_output_is_the_explicit_maximum_or_the_models_within_bounds",
    ),
    Mutation(
        "implausible-usage-believed",
        "gw",
        "if not doubted:\n        return charge_of(usage, price, basis)",
        "if True:\n        return charge_of(usage, price, basis)",
        "tests/unit/calls/test_bills.py::test_usage_beyond_belief_is_replaced_by_the_estimate",
    ),
    Mutation(
        "empty-error-charged",
        "gw",
        "(not has_run or meter.error_seen is not None)",
        "not has_run",
        "tests/unit/calls/test_bills.py::test_nothing_delivered_is_nothing_charged",
    ),
    Mutation(
        "cut-output-as-stated",
        "gw",
        "max(partial.output_tokens or 0, estimate.output_tokens)",
        "(partial.output_tokens or 0)",
        "tests/unit/calls/test_bills.py::test_cut_stream_takes_its_input_from_what_was_stated",
    ),
    Mutation(
        "count-that-falls",
        "channels",
        "stated, counts = counts, never_less(known, counts)",
        "stated = counts",
        "tests/unit/channels/test_usage.py::test_no_count_falls",
    ),
    Mutation(
        "part-beside-the-total",
        "channels",
        "if rest == 0:\n        return given, made",
        "if rest is None or rest >= 0:\n        return given, made",
        "tests/unit/channels/test_usage.py::test_cached_tokens_beside_the_prompt_are_charged",
    ),
    Mutation(
        "rest-after-the-usage-free",
        "gw",
        "most = usage.output_tokens + tokens_of_bytes(meter.unstated_characters)",
        "most = usage.output_tokens",
        "tests/unit/calls/test_bills.py::test_what_was_sent_after_the_usage_is_estimated",
    ),
    Mutation(
        "undelivered-piece-charged",
        "gw",
        "if first_byte_seconds is None or not self.is_complete:",
        "if not self.is_complete:",
        "tests/unit/calls/test_whole_submit.py::test_what_cannot_be_kept_is_not_paid_for_and_reported",
    ),
    Mutation(
        "film-billed-as-asked",
        "actors",
        "quantity = _possible(open_job, end.seconds_ms)",
        "quantity = end.seconds_ms",
        "tests/unit/jobs/test_settlement.py::test_what_succeeded_is_paid_for",
    ),
    # Settlement on every way out.
    Mutation(
        "settled-twice",
        "gw",
        "            return\n        self._is_settled = True\n        try:",
        "            pass\n        self._is_settled = True\n        try:",
        "tests/unit/calls/test_settlement.py::test_usage_that_cannot_be_is_not_believed",
    ),
    Mutation(
        "left-unsettled",
        "gw",
        "        finally:\n            self.settle()\n            if self.attempts.has_response:",
        "        finally:\n            if self.attempts.has_response:",
        SIMULATION,
    ),
    Mutation(
        "settled-after-last-bytes",
        "gw",
        "        settlement.settle()\n        if settlement.exceeds_hold:\n"
        "            await settlement.until_durable()\n        await relay.finish_response()",
        "        await relay.finish_response()\n        settlement.settle()",
        "tests/unit/calls/test_outcome.py::test_balance_has_moved_when_the_last_bytes_go_out",
    ),
    Mutation(
        "refused-hand-over-left",
        "gw",
        "            else:\n                self._is_settled = False",
        "            else:\n                self._is_settled = True",
        "tests/unit/calls/test_job_submit.py::test_a_job_that_recovery_took_for_dead_is_given_up_at_its_upstream",
    ),
    Mutation(
        "error-before-free-key",
        "gw",
        "                self.settle()\n                await self.until_durable()",
        "                self.settle()",
        "tests/unit/images/test_submissions.py::test_error_is_reported_only_when_the_key_is_free",
    ),
    Mutation(
        "absurd-hold",
        "gw",
        "if self.bill.hold_nano_usd > MAX_NANO_USD:",
        "if self.bill.hold_nano_usd > MAX_NANO_USD**2:",
        "tests/unit/calls/test_settlement.py::test_maximum_that_no_ledger_holds_is_402",
    ),
    # The ledger.
    Mutation(
        "batch-spends-twice",
        "actors",
        "            available := available - want.amount;\n",
        "",
        "tests/integration/wallet/test_ledger_batches.py::test_holds_of_one_batch_share_one_balance",
    ),
    Mutation(
        "hold-above-balance",
        "actors",
        "IF want.amount > 0 AND (available <= 0 OR want.amount > available)\n",
        "IF want.amount > 0 AND available <= 0\n",
        "tests/integration/wallet/test_ledger_batches.py::test_what_is_held_is_not_there_for_the_next_batch",
    ),
    Mutation(
        "spend-cap-overdrawn",
        "actors",
        "IF left_of_cap <= 0 OR want.amount > left_of_cap THEN",
        "IF left_of_cap <= 0 THEN",
        "tests/integration/wallet/test_ledger_batches.py::test_holds_of_one_batch_share_one_balance",
    ),
    Mutation(
        "spend-cap-forgets-holds",
        "actors",
        "k.spent_nano_usd + k.held_nano_usd END AS used_of_cap",
        "k.spent_nano_usd END AS used_of_cap",
        "tests/integration/wallet/test_ledger_batches.py::test_holds_of_one_batch_share_one_balance",
    ),
    Mutation(
        "hold-of-the-dead",
        "actors",
        "IF NOT is_alive AND p_holds IS NOT NULL THEN",
        "IF false THEN",
        "tests/integration/actors/test_recovery.py::test_answered_call_costs_what_it_costs_though_others_had_settled_it",
    ),
    Mutation(
        "free-delivery-refunded",
        "actors",
        "CASE WHEN cost <> 0 OR status = 'success' THEN 'settle'::entry_kind",
        "CASE WHEN cost <> 0 THEN 'settle'::entry_kind",
        "tests/integration/wallet/test_ledger_batches.py::test_free_delivery_is_no_refund",
    ),
    Mutation(
        "key-claimed-twice",
        "actors",
        "CASE WHEN claim ->> 'key' = ANY (claimed) THEN 'in_flight' END",
        "NULL",
        "tests/integration/wallet/test_leases.py::test_first_in_a_batch_gets_the_key_and_only_with_the_money",
    ),
    # Leases.
    Mutation(
        "lease-outlives-dear-call",
        "actors",
        "        if is_passed or (excess and not self._leases.absorbs(facts.account_id)):",
        "        if is_passed:",
        "tests/unit/wallet/test_wallets.py::test_call_far_above_its_hold_counts_before_the_ledger_knows_of_it",
    ),
    Mutation(
        "lease-absorbs-what-it-has-not",
        "actors",
        "and lease.room >= 0",
        "and lease.leased > 0",
        "tests/integration/wallet/test_leases.py"
        "::test_after_a_call_far_above_its_hold_as_many_are_admitted_as_the_rest_covers",
    ),
    Mutation(
        "excess-out-of-lease",
        "actors",
        "lease.used += cost_nano_usd - admitted.hold.amount_nano_usd",
        "lease.used += min(0, cost_nano_usd - admitted.hold.amount_nano_usd)",
        "tests/unit/wallet/test_wallets.py::test_call_little_above_its_hold_counts_with_its_cost_and_calls_nothing_back",
    ),
    Mutation(
        "excess-of-written-call",
        "actors",
        "        lease.used += nano_usd\n        return nano_usd",
        "        return 0",
        "tests/unit/wallet/test_wallets.py::test_call_little_above_its_hold_counts_with_its_cost_and_calls_nothing_back",
    ),
    Mutation(
        "excess-counts-for-ever",
        "actors",
        "            if one.exceeding:",
        "            if False:",
        "tests/unit/wallet/test_wallets.py::test_call_little_above_its_hold_counts_with_its_cost_and_calls_nothing_back",
    ),
    Mutation(
        "call-back-unheard",
        "actors/store",
        "PERFORM pg_notify('gw_settled', 'give_back ledger ' || p_account);",
        "NULL;",
        "tests/integration/wallet/test_leases.py::test_leases_that_a_balance_no_longer_covers_are_called_back_whatever_took_it",
    ),
    Mutation(
        "beat-reports-no-call-back",
        "actors",
        "                self._called_back(rows[0][0])",
        "                pass",
        "tests/integration/wallet/test_leases.py::test_leases_that_a_balance_no_longer_covers_are_called_back_whatever_took_it",
    ),
    Mutation(
        "called-lease-grows",
        "actors/store",
        "WHEN a.unleased_until > clock_timestamp() OR l.called_at IS NOT NULL THEN 0\n",
        "WHEN a.unleased_until > clock_timestamp() THEN 0\n",
        "tests/integration/wallet/test_leases.py::test_lease_that_is_called_back_does_not_grow",
    ),
    Mutation(
        "batch-confirms-leases",
        "actors",
        "            else:\n                self.leases.changed(signed, applied.leases, ",
        "            else:\n                self._identity.confirmed_at = started\n"
        "                self.leases.changed(signed, applied.leases, ",
        "tests/integration/wallet/test_leases.py::test_batches_confirm_no_lease",
    ),
    Mutation(
        "leased-balance-is-spent",
        "actors",
        "                raise BalanceLeased",
        '                raise HoldRefused("insufficient_funds")',
        "tests/integration/wallet/test_leases.py::test_balance_that_another_process_leases_is_unavailable_and_never_spent",
    ),
    Mutation(
        "lease-taken-at-once",
        "actors",
        "            if now - since > STALE_SECONDS:\n                ((amount",
        "            if now - since >= 0:\n                ((amount",
        "tests/integration/wallet/test_leases.py::test_balance_that_another_process_leases_is_unavailable_and_never_spent",
    ),
    # Idempotency.
    Mutation(
        "key-of-paid-failure-freed",
        "gw",
        'is_bought = status == "success" or cost_nano_usd > 0',
        'is_bought = status == "success"',
        "tests/unit/idempotency/test_guard.py::test_end_of_a_key",
    ),
    Mutation(
        "key-freed-by-leaving",
        "gw",
        "return None if client_left else claims.Free()",
        "return claims.Free()",
        "tests/unit/idempotency/test_guard.py::test_end_of_a_key",
    ),
    Mutation(
        "fingerprint-without-path",
        "gw",
        'hashlib.sha256(f"{method} {path}\\n".encode())',
        "hashlib.sha256()",
        "tests/unit/idempotency/test_guard.py::test_place_is_part_of_what_was_requested",
    ),
    # Limits.
    Mutation(
        "rpm-one-more",
        "actors",
        "if rpm is not None and requests >= rpm:",
        "if rpm is not None and requests > rpm:",
        "tests/unit/actors/limits/test_accounts.py::test_window_slides_and_does_not_jump",
    ),
    Mutation(
        "rpm-one-more-in-redis",
        "actors",
        "if rpm and requests >= rpm then",
        "if rpm and requests > rpm then",
        "tests/integration/actors/limits/test_shared.py::test_window_is_one_for_all_processes",
    ),
    Mutation(
        "concurrency-one-more",
        "actors",
        "len(usage.flying) >= concurrency",
        "len(usage.flying) > concurrency",
        "tests/unit/actors/limits/test_accounts.py::test_concurrency_frees_when_a_request_leaves_and_leaves_once",
    ),
    Mutation(
        "left-twice",
        "actors",
        "slot, self._slot = self._slot, None",
        "slot = self._slot",
        "tests/unit/actors/limits/test_accounts.py::test_concurrency_frees_when_a_request_leaves_and_leaves_once",
    ),
    Mutation(
        "slot-one-more",
        "actors",
        "self.in_use >= self._limit",
        "self.in_use > self._limit",
        "tests/unit/actors/test_channel.py::test_slots_are_never_exceeded",
    ),
    Mutation(
        "empty-account-served",
        "gw",
        "await reading > 0",
        "await reading >= 0",
        "tests/unit/api/test_guards.py::test_request_is_stopped",
    ),
    # Retries and failover.
    Mutation("fourth-try", "actors", "TRIES_MAX = 3", "TRIES_MAX = 4", SIMULATION),
    Mutation(
        "second-hop",
        "gw",
        "if result.status == THROTTLED and not failover.has_hopped:",
        "if result.status == THROTTLED:",
        "tests/unit/calls/test_throttled.py::test_second_limit_is_the_clients",
    ),
    Mutation(
        "hop-to-a-key-at-rest",
        "actors",
        "if self.has_hopped and not channel.spec.ring.is_ready:",
        "if False:",
        "tests/unit/calls/test_throttled.py::test_hop_needs_a_channel_that_is_free",
    ),
    Mutation(
        "demand-checked-before-the-hold-alone",
        "actors",
        "if demand is not None and not self.keeps(demand):",
        "if False:",
        "tests/unit/calls/test_data_demands.py::test_failover_stays_among_channels_that_keep_it",
    ),
    Mutation(
        "demand-of-the-key-alone",
        "gw",
        "self.demand = strictest(self.demand, own)",
        "self.demand = self.demand or own",
        "tests/acceptance/test_data_promise.py"
        "::test_account_key_and_header_demand_together_at_once",
    ),
    Mutation(
        "rest-ends-first-in-turn",
        "channels",
        "                self._last = key.number - 1",
        "                pass",
        "tests/unit/channels/test_key_rings.py::test_key_is_last_in_turn_after_its_rest",
    ),
    Mutation(
        "embeddings-hold-nothing",
        "gw",
        "            tokens = tokens_of_bytes(request.input_bytes)",
        "            tokens = 0",
        "tests/acceptance/test_embeddings.py::test_what_no_balance_covers_is_not_begun",
    ),
    Mutation(
        "timeout-retried",
        "gw",
        "isinstance(error, errors.UpstreamTimedOut | errors.UnexpectedStatus)",
        "isinstance(error, errors.UnexpectedStatus)",
        "tests/unit/calls/test_retry.py::test_what_follows_a_failed_attempt",
    ),
    Mutation(
        "submitted-again",
        "gw",
        "isinstance(error, errors.UpstreamUnreachable) and not isinstance(",
        "isinstance(error, errors.UpstreamUnreachable) or isinstance(",
        "tests/unit/calls/test_retry.py::test_what_follows_a_failed_attempt",
    ),
    Mutation(
        "key-refusal-opens-channel",
        "gw",
        'return "success" if isinstance(error, errors.CredentialsRefused) else "failure"',
        'return "failure"',
        "tests/unit/calls/test_refusals.py::test_refused_key_is_the_channels_failure",
    ),
    # Usage, as each dialect states it.
    Mutation(
        "chat-cache-overlooked",
        "channels/dialects",
        "stated.cached_tokens, stated.prompt_cache_hit_tokens, read",
        "stated.cached_tokens, None, read",
        "tests/unit/channels/test_chat_meter.py::test_usage_is_read_as_stated",
    ),
    Mutation(
        "messages-cache-inside",
        "channels/dialects/messages",
        "None if fresh is None else fresh + cached + written",
        "None if fresh is None else fresh + written",
        "tests/unit/channels/test_dialect_meters.py::test_whole_answer_is_read",
    ),
    Mutation(
        "messages-first-output",
        "channels/dialects/messages",
        "output_tokens=None if is_start else output",
        "output_tokens=output",
        "tests/unit/channels/test_dialect_usages.py::test_cut_messages_stream_tells_its_input",
    ),
    Mutation(
        "responses-cache-overlooked",
        "channels/dialects",
        "of.cached_tokens, stated.cached_tokens",
        "None, stated.cached_tokens",
        "tests/unit/channels/test_dialect_usages.py::test_responses_usage_is_read_from_every_last_event",
    ),
    Mutation(
        "gemini-thoughts-free",
        "channels/dialects/gemini",
        "return candidates + thoughts",
        "return candidates",
        "tests/unit/channels/test_dialect_usages.py::test_gemini_counts_are_made_into_a_usage",
    ),
    # Translation.
    Mutation(
        "tool-error-lost",
        "channels/dialects/messages",
        '            block["is_error"] = True',
        '            block["is_error"] = False',
        "tests/unit/translation/test_every_field.py::test_field_arrives_where_it_belongs_or_is_listed",
    ),
    Mutation(
        "parallel-tools-inverted",
        "channels/dialects/messages",
        "None if disabled is None else not disabled",
        "disabled",
        "tests/unit/translation/test_messages_to_chat.py::test_members_are_carried_or_reported",
    ),
    Mutation(
        "foreign-thought-signed",
        "channels/dialects/messages",
        "part.signer != MESSAGES.protocol or not part.signature",
        "not part.signature",
        "tests/unit/translation/test_signatures.py::test_signature_of_another_provider_is_dropped_and_reported",
    ),
    Mutation(
        "messages-length-as-stop",
        "channels/dialects/messages",
        '"length": "max_tokens"',
        '"length": "end_turn"',
        "tests/unit/translation/test_whole_responses.py::test_finish_means_the_same_both_ways",
    ),
    Mutation(
        "gemini-call-as-stop",
        "channels/dialects/gemini",
        '("tool_calls" if has_calls else "stop"), message',
        '"stop", message',
        "tests/unit/translation/gemini/test_stream_decoder.py::test_stream_is_read",
    ),
    Mutation(
        "image-type-lost",
        "channels/dialects/messages",
        "mime_type = media.mime_type or fallback",
        "mime_type = fallback",
        "tests/unit/translation/test_chat_to_messages.py::test_conversation_is_written_as_messages",
    ),
    Mutation(
        "renamed-tool-kept",
        "channels",
        "own_name = self._names.get(call.name, call.name)",
        "own_name = call.name",
        "tests/unit/translation/responses/test_chat_stream.py::test_function_calls_beside_a_search_under_the_clients_own_names",
    ),
    Mutation(
        "custom-call-as-function",
        "channels/dialects/responses",
        "return kind, namespace, inner",
        "return FUNCTION, namespace, inner",
        "tests/unit/translation/test_session.py::test_tools_that_are_no_functions_come_back_as_what_they_are",
    ),
    Mutation(
        "foreign-thought-to-responses",
        "channels/dialects/responses",
        "return None if isinstance(proof, str) and proof.startswith(signatures.TAG) else item",
        "return item",
        "tests/unit/translation/test_signatures.py::test_thoughts_that_no_channel_of_responses_made_stay_behind",
    ),
    Mutation(
        "responses-events-of-one-number",
        "channels/dialects/responses",
        "self._sequence = number + 1",
        "self._sequence = 1",
        "tests/unit/calls/test_every_cut.py::test_translation_reports_what_it_reported_before",
    ),
    Mutation(
        "cut-response-as-whole",
        "channels/dialects/responses",
        '"length": "max_output_tokens"',
        '"pause": "max_output_tokens"',
        "tests/unit/translation/test_properties.py::test_whole_answer_says_the_same_again",
    ),
    Mutation(
        "proofs-of-thoughts-not-asked-for",
        "channels/dialects/responses",
        'body["include"] = _PROOFS',
        'body.pop("include", None)',
        "tests/unit/translation/test_every_field.py::test_field_arrives_where_it_belongs_or_is_listed",
    ),
    # Masking.
    Mutation(
        "second-key-shown",
        "channels",
        "            *self.keys,",
        "            self.api_key,",
        "tests/unit/channels/test_key_rings.py::test_every_key_is_masked",
    ),
    Mutation(
        "quoted-key-shown",
        "channels",
        'return {*long, *(quote(one, safe="") for one in long), *map(quote_plus, long)}',
        "return {*long}",
        "tests/unit/channels/test_redacted_configuration.py::test_configured_texts_are_masked_however_they_are_spelled",
    ),
    # Keys, and what stands before endpoints.
    Mutation(
        "key-believed-too-long",
        "gw/keys",
        "self.usable_until = until + GRACE_SECONDS",
        "self.usable_until = until + 2 * GRACE_SECONDS",
        "tests/unit/keys/test_cache.py::test_key_is_believed_for_its_time_and_never_after_a_change",
    ),
    Mutation(
        "gap-forgotten",
        "gw/keys",
        "        self._epoch += 1\n        self._unknown.clear()",
        "        self._unknown.clear()",
        "tests/unit/keys/test_cache.py::test_key_is_believed_for_its_time_and_never_after_a_change",
    ),
    Mutation(
        "vouched-for-ever",
        "gw/keys",
        "min(self._heard_at + self._ttl_seconds, entry.reread_at)",
        "self._heard_at + self._ttl_seconds",
        "tests/unit/keys/test_cache.py::test_key_is_believed_for_its_time_and_never_after_a_change",
    ),
    Mutation(
        "new-key-stays-unknown",
        "gw/keys",
        "            self._unknown.clear()\n            self._entries.drop_key",
        "            self._entries.drop_key",
        "tests/unit/keys/test_cache.py::test_key_is_believed_for_its_time_and_never_after_a_change",
    ),
    Mutation(
        "agents-everywhere",
        "gw/api",
        "and not endpoint.agent_keys_allowed",
        "and False",
        "tests/unit/api/test_handler.py::test_each_check_refuses_by_itself",
    ),
    # Jobs and recovery.
    Mutation(
        "lost-too-late",
        "actors",
        "NOT_FOUND_MAX = 3",
        "NOT_FOUND_MAX = 4",
        "tests/unit/jobs/test_states.py::test_third_time_in_a_row_that_a_task_is_not_known_it_is_lost",
    ),
    Mutation(
        "overdue-result-thrown-away",
        "actors",
        "if is_overdue and step.end is None:",
        "if is_overdue:",
        "tests/unit/jobs/test_states.py::test_every_observation_in_every_state",
    ),
    Mutation(
        "recovered-for-free",
        "actors",
        'cost_nano_usd=delivered.get("cost", 0),',
        "cost_nano_usd=0,",
        "tests/unit/actors/test_recovery.py::test_neighbour_whose_pid_is_gone_is_dead_at_once",
    ),
    Mutation(
        "judged-by-the-stalled",
        "actors",
        "if is_judge and is_silent and await",
        "if is_silent and await",
        "tests/integration/actors/test_recovery.py"
        "::test_judge_whose_heart_has_not_beaten_for_ten_seconds_waits",
    ),
    # What proves the ledger.
    Mutation(
        "entry-of-a-sealed-month",
        "actors",
        "greatest(now(), (SELECT m.ends_at FROM entry_months m WHERE m.sealed_at IS NOT NULL\n",
        "coalesce(now(), (SELECT m.ends_at FROM entry_months m WHERE m.sealed_at IS NOT NULL\n",
        "tests/integration/store/test_partitions.py"
        "::test_clock_that_goes_back_into_a_sealed_month_books_after_it",
    ),
    Mutation(
        "balance-without-a-bound",
        "actors",
        "AND abs(f.balance) <= %(most)s",
        "AND f.balance <= %(most)s",
        "tests/integration/cli/test_accounts.py"
        "::test_correction_is_an_entry_of_its_own_with_its_reason",
    ),
    Mutation(
        "links-instead-of-the-cost",
        "actors",
        "(_without_attempts, _without_links, _without_receipt)",
        "(_without_attempts,)",
        "tests/unit/actors/test_recorder.py"
        "::test_settlement_keeps_its_cost_whatever_else_is_too_long",
    ),
    Mutation(
        "damaged-recorder-unseen",
        "actors",
        "is_damaged = any(turn != max(0, newest - 1) for turn in torn)",
        "is_damaged = False",
        "tests/unit/actors/test_recorder.py::test_any_flipped_byte_of_what_counts_is_seen",
    ),
    Mutation(
        "row-not-compared",
        "actors",
        "AND l.digest <> call_log_digest_of(l)",
        "AND l.digest <> l.digest",
        "tests/integration/wallet/test_tampering.py::test_every_tampering_is_found",
    ),
    Mutation(
        "digest-without-the-model",
        "actors",
        "ROW(account_id, key_id, request_id, created_at, submitted_at, protocol, model, status,",
        "ROW(account_id, key_id, request_id, created_at, submitted_at, protocol, status,",
        "tests/integration/wallet/test_tampering.py::test_every_tampering_is_found",
    ),
    Mutation(
        "corrected-row-keeps-its-digest",
        "actors",
        "digest = call_log_digest_of(after)",
        "digest = call_log_digest_of(before)",
        "tests/integration/wallet/test_tampering.py::test_corrected_row_has_its_digest_again",
    ),
    Mutation(
        "refused-row-taken-out",
        "actors",
        "OR TG_OP = 'DELETE' AND o.cost_nano_usd <> 0) recorded\n          CROSS JOIN",
        "OR TG_OP = 'DELETE') recorded\n          CROSS JOIN",
        "tests/integration/wallet/test_tampering.py::test_every_tampering_is_found",
    ),
    Mutation(
        "call-of-two-accounts",
        "actors",
        "(o.account_id <> e.account_id OR coalesce(o.key_id",
        "(coalesce(o.key_id",
        "tests/integration/wallet/test_tampering.py::test_every_tampering_is_found",
    ),
    Mutation(
        "entries-of-two-keys",
        "actors",
        "HAVING min(account) <> max(account) OR min(key) IS DISTINCT FROM max(key)",
        "HAVING min(account) <> max(account)",
        "tests/integration/wallet/test_tampering.py::test_every_tampering_is_found",
    ),
    Mutation(
        "release-of-another-call",
        "actors",
        "HAVING count(*) > 1 AND sum(held_nano_usd) <> 0",
        "HAVING count(*) > 2",
        "tests/integration/wallet/test_tampering.py::test_every_tampering_is_found",
    ),
    Mutation(
        "key-without-spending",
        "actors",
        "WHERE k.account_id IS DISTINCT FROM s.account_id",
        "WHERE k.account_id <> s.account_id",
        "tests/integration/wallet/test_tampering.py::test_every_tampering_is_found",
    ),
    Mutation(
        "second-trial",
        "actors",
        "HAVING count(*) > 1 OR max(e.created_at)",
        "HAVING max(e.created_at)",
        "tests/integration/wallet/test_tampering.py::test_every_tampering_is_found",
    ),
    Mutation(
        "credit-of-tomorrow",
        "actors",
        "AND created_at > interval '5 minutes'",
        "AND created_at > interval '5 days'",
        "tests/integration/wallet/test_tampering.py::test_every_tampering_is_found",
    ),
    Mutation(
        "poll-that-is-never-due",
        "actors",
        "OR p.due_at > greatest(p.deadline_at, now()) + interval '1 hour'\n    OR",
        "OR",
        "tests/integration/jobs/test_retention.py::test_what_disagrees_is_found",
    ),
    # Requests and streams on their way.
    Mutation(
        "maximum-of-the-client-replaced",
        "channels/dialects/gemini",
        "if request.max_tokens is None and default_max_tokens is not None:",
        "if default_max_tokens is not None:",
        "tests/unit/channels/test_gemini_request.py::test_omitted_maximum_is_spliced_into_the_generation_config",
    ),
    Mutation(
        "usage-not-asked-for",
        "channels/dialects/chat",
        "_INCLUDE_USAGE = b'{\"include_usage\":true}'",
        "_INCLUDE_USAGE = b'{\"include_usage\":false}'",
        "tests/unit/channels/test_upstream_bodies.py::test_usage_of_a_stream_is_always_requested",
    ),
    Mutation(
        "leading-spaces-of-an-event-lost",
        "channels/http",
        'value = value.removeprefix(b" ")',
        'value = value.lstrip(b" ")',
        "tests/unit/channels/test_sse.py::test_only_one_space_after_the_colon_is_taken_away",
    ),
    Mutation(
        "unread-client-kept",
        "gw/http",
        "self.reader_until = self._loop.time() + UNREAD_SECONDS",
        "self.reader_until = self._loop.time() + 1000 * UNREAD_SECONDS",
        "tests/unit/http/test_bounds.py::test_client_that_takes_nothing_of_its_answers_is_cut",
    ),
    # Budgets.
    Mutation(
        "general-beside-specific",
        "gw",
        "replaced = [node.period for node in own if node.starts <= now]",
        "replaced = []",
        "tests/unit/budgets/test_matching.py"
        "::test_the_specific_stands_in_place_of_the_general_of_its_period_alone",
    ),
    Mutation(
        "budget-of-no-call",
        "gw",
        "if self._models and (found := self._models.get(facts.model)):",
        "if self._models and (found := self._models.get(facts.protocol)):",
        "tests/unit/budgets/test_matching.py::test_a_call_matches_what_it_has",
    ),
    Mutation(
        "node-leases-left-behind",
        "actors",
        "PERFORM budget_leases_of(OLD.process_id, OLD.account_id);",
        "",
        "tests/integration/budgets/test_node_leases.py"
        "::test_a_process_that_dies_leaves_no_lease_and_its_calls_are_booked",
    ),
    Mutation(
        "changed-budget-calls-nothing-back",
        "actors",
        "PERFORM leases_call_back(coalesce(NEW.account_id, OLD.account_id));",
        "",
        "tests/integration/budgets/test_node_leases.py"
        "::test_changed_nodes_are_in_force_when_no_lease_is_left",
    ),
    Mutation(
        "budget-one-too-much",
        "actors",
        "IF want.amount > remaining THEN",
        "IF want.amount > remaining + 1 THEN",
        "tests/integration/budgets/test_holds.py"
        "::test_a_call_holds_where_it_fits_and_is_refused_with_the_figures_where_not",
    ),
    Mutation(
        "period-that-comes-back",
        "actors",
        "IF period_from IS NULL OR present >= period_to THEN",
        "IF period_from IS NULL OR present >= period_to OR present < period_from THEN",
        "tests/integration/budgets/test_holds.py::test_a_clock_that_goes_back_reopens_no_period",
    ),
    Mutation(
        "ceiling-of-the-last",
        "actors",
        "IF p_ceiling < known.limit_nano_usd THEN",
        "IF p_ceiling <> known.limit_nano_usd THEN",
        "tests/integration/budgets/test_holds.py"
        "::test_a_run_has_the_least_ceiling_that_anyone_names",
    ),
    Mutation(
        "budget-held-for-messages-alone",
        "gw",
        "amount = min(bill.budget_hold_nano_usd, MAX_NANO_USD)",
        "amount = min(bill.hold_nano_usd, MAX_NANO_USD)",
        "tests/unit/calls/test_holding.py"
        "::test_nodes_that_refuse_are_held_for_the_whole_request_and_others_count_only",
    ),
    Mutation(
        "budgets-matched-once",
        "actors",
        "is_free = hold.budgets_version == nodes.version",
        "is_free = True",
        "tests/unit/wallet/test_node_leases.py"
        "::test_a_call_matched_by_the_nodes_of_before_is_not_admitted",
    ),
    Mutation(
        "node-lease-that-never-ends",
        "actors",
        "if now >= lease.until or lease.identity != identity:",
        "if lease.sum_id is None or lease.identity != identity:",
        "tests/unit/wallet/test_node_leases.py::test_a_lease_of_a_node_ends_with_its_period",
    ),
    Mutation(
        "node-lease-spent-twice",
        "actors",
        "lease.used += amount\n            assert lease.sum_id is not None",
        "assert lease.sum_id is not None",
        "tests/unit/wallet/test_node_leases.py::test_no_more_is_admitted_in_memory_than_is_leased",
    ),
    Mutation(
        "late-row-not-in-its-day",
        "actors",
        "hours = 24 AND start > p_from - interval '1 day'",
        "hours = 24 AND start > p_from",
        "tests/integration/wallet/test_attribution.py::test_a_day_that_is_over_is_added_up_once_and_takes_what_comes_late",
    ),
    Mutation(
        "row-passes-its-span-being-added-up",
        "actors",
        "AND account_id = ANY (p_accounts) FOR SHARE;",
        "AND account_id = ANY (p_accounts);",
        "tests/integration/wallet/test_attribution.py::test_a_span_that_is_being_added_up_holds_up_only_rows_of_that_span",
    ),
    Mutation(
        "leased-of-budgets-held-again",
        "actors",
        "ELSIF want.amount > 0 AND want.amount > remaining - sum.leased_nano_usd THEN",
        "ELSIF want.amount > 0 AND want.amount > remaining THEN",
        "tests/integration/budgets/test_holds.py"
        "::test_what_comes_in_one_batch_with_calls_admitted_in_memory_finds_their_room_taken",
    ),
    Mutation(
        "stale-budgets-are-503",
        "gw",
        'if refused.reason != "stale_budgets":',
        "if True:",
        SIMULATION,
    ),
    # Chains of models.
    Mutation(
        "cheapest-of-a-chain-held",
        "gw/calls",
        "dearest = max(bills, key=",
        "dearest = min(bills, key=",
        "tests/acceptance/test_chains.py::test_dearest_model_is_held_for",
    ),
    Mutation(
        "later-model-without-a-try",
        "actors",
        "if TRIES_MAX - len(self.failed) <= len({one.step for one in others}):",
        "if TRIES_MAX - len(self.failed) < 0:",
        "tests/unit/calls/test_chain.py::test_each_later_model_keeps_a_try",
    ),
    Mutation(
        "budgets-of-a-chains-models-not-held",
        "gw/calls",
        "steps = nodes.of_models(one.id for one in call.model.chain)",
        "steps = ()",
        "tests/acceptance/test_chains.py"
        "::test_call_is_refused_where_a_model_that_may_serve_it_has_no_room",
    ),
    Mutation(
        "chain-paid-by-every-model",
        "actors/store/functions",
        "THEN budget_served(h.budgets, s.model, s.rare ->> 'served', true) ELSE",
        "THEN h.budgets ELSE",
        "tests/integration/budgets/test_chains.py::test_a_written_call_costs_where_it_was_served",
    ),
    Mutation(
        "chain-paid-by-the-models-that-did-not-serve",
        "actors/store/functions",
        "b.subject NOT IN (p_model, p_served)",
        "b.subject IN (p_model, p_served)",
        "tests/integration/budgets/test_chains.py::test_a_written_call_costs_where_it_was_served",
    ),
    Mutation(
        "models-that-did-not-serve-stay-held",
        "actors/store/functions",
        "FILTER (WHERE is_held AND budgets IS DISTINCT FROM holding)",
        "FILTER (WHERE false)",
        "tests/integration/budgets/test_chains.py::test_a_written_call_costs_where_it_was_served",
    ),
    Mutation(
        "correction-of-a-chain-paid-by-every-model",
        "actors/store/functions",
        "budget_served(before.budgets, before.model, p_true.rare ->> 'served', true)",
        "before.budgets",
        "tests/integration/budgets/test_chains.py::test_a_correction_costs_where_the_call_was_served",
    ),
    Mutation(
        "admitted-call-of-a-chain-paid-by-every-model",
        "actors/wallet",
        "return not (node.model and served) or node.model == served",
        "return True",
        "tests/unit/wallet/test_node_leases.py"
        "::test_a_model_of_a_chain_that_has_not_served_gives_back_its_part_of_the_lease",
    ),
    Mutation(
        "lease-of-a-model-that-did-not-serve-kept",
        "actors/wallet",
        "                lease.used -= part.held\n                if lease.is_over:",
        "                if lease.is_over:",
        "tests/unit/wallet/test_node_leases.py"
        "::test_a_model_of_a_chain_that_has_not_served_gives_back_its_part_of_the_lease",
    ),
    Mutation(
        "recovered-chain-forgets-who-served",
        "actors",
        'served=detail.get("served", ""),',
        'served="",',
        "tests/acceptance/test_chains.py"
        "::test_killed_call_is_charged_for_the_model_that_was_serving",
    ),
    Mutation(
        "served-model-not-settled-by",
        "gw/calls",
        'return served if served and any(one.model for one in self._held) else ""',
        'return ""',
        SIMULATION,
    ),
    Mutation(
        "model-of-a-conversation-unheard",
        "gw",
        "served=lambda told: memory.served_models.heard(told, clock.monotonic()),",
        "served=lambda told: None,",
        "tests/acceptance/test_chains.py"
        "::test_every_process_learns_which_model_serves_a_conversation",
    ),
    Mutation(
        "older-word-of-a-conversation-believed",
        "gw/calls",
        "if name not in self._news:",
        "if name:",
        "tests/unit/calls/test_served_models.py"
        "::test_processes_that_differ_agree_on_what_was_sent_last",
    ),
    Mutation(
        "model-that-loses-a-member-not-skipped",
        "gw/calls",
        "lost = plan.translated.report.shortened().lost",
        "lost = ()",
        "tests/acceptance/test_chains.py::test_model_that_would_lose_a_member_is_skipped_and_named",
    ),
    Mutation(
        "quarantined-job-is-polled-on",
        "actors/wallet",
        "WITH rested AS (DELETE FROM job_polls WHERE job_id = %(job)s)",
        "WITH rested AS (SELECT %(job)s)",
        "tests/integration/wallet/test_quarantine.py::test_job_whose_settlement_is_refused_rests_until_it_is_booked",
    ),
    Mutation(
        "quarantined-call-is-recovered",
        "actors/store/functions",
        "WHERE q.booked_at IS NULL AND NOT q.is_recovery",
        "WHERE false",
        "tests/integration/wallet/test_quarantine.py::test_killed_process_leaves_its_refused_settlements_to_the_quarantine",
    ),
    Mutation(
        "unrequested-images-charged",
        "gw",
        "images = self._response.images[:most]",
        "images = self._response.images",
        "tests/unit/images/test_generation.py::test_images_that_nobody_requested_cost_nothing_and_raise_an_alarm",
    ),
    Mutation(
        "head-of-a-recording-decides-its-hold",
        "channels",
        "return max(by_size, self.stated_milliseconds or 0)",
        "return self.stated_milliseconds or by_size",
        "tests/unit/channels/test_transcriptions.py::test_head_of_a_file_lowers_no_hold",
    ),
    Mutation(
        "stream-begun-before-its-answer",
        "gw/calls",
        "meter.has_answer or meter.error_seen is not None or",
        "True or",
        "tests/unit/calls/test_responses_without_content.py::test_response_without_an_answer_is_tried_elsewhere_and_costs_nothing",
    ),
    Mutation(
        "level-sent-that-a-model-refuses",
        "channels/dialects/chat",
        "fitted = generation.fitted(effort) if generation.efforts else None",
        "fitted = effort",
        "tests/unit/translation/test_generations_of_chat.py::test_level_is_one_that_the_model_takes",
    ),
)

-- The digest of a row of the call log (`call_log_digest_whole`).
CREATE OR REPLACE FUNCTION call_log_digest_of(l call_logs) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT call_log_digest_whole(call_log_digest(l.account_id, l.key_id, l.request_id, l.created_at, l.submitted_at, l.protocol, l.model,
        l.status, l.error_code, l.error_message, l.input_tokens, l.output_tokens, l.cached_tokens, l.unit_count,
        l.unit_type, l.cost_nano_usd, l.latency_ms, l.task_id, l.result_urls, l.result_expires_at, l.attempts,
        l.upstream_cost_nano_usd, l.channel_id, l.detail), l.attribution)
$$;

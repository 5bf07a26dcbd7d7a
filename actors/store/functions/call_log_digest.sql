-- The digest of a row's first columns; with `call_log_digest_whole` it is written with the row, and proved by `gw ledger
-- verify`. Of hashes that PostgreSQL keeps from version to version, as its hash partitions need.
CREATE OR REPLACE FUNCTION call_log_digest(account_id text, key_id text, request_id uuid, created_at timestamptz,
    submitted_at timestamptz, protocol text, model text, status text, error_code text, error_message text,
    input_tokens bigint, output_tokens bigint, cached_tokens bigint, unit_count integer, unit_type text,
    cost_nano_usd bigint, latency_ms bigint, task_id text, result_urls json, result_expires_at timestamptz, attempts json,
    upstream_cost_nano_usd bigint, channel_id text, detail json)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hash_record_extended(ROW(account_id, key_id, request_id, created_at, submitted_at, protocol, model, status,
        error_code, error_message, input_tokens, output_tokens, cached_tokens, unit_count, unit_type, cost_nano_usd,
        latency_ms, task_id, result_urls::text, result_expires_at, attempts::text, upstream_cost_nano_usd, channel_id,
        detail::text), 0)
$$;

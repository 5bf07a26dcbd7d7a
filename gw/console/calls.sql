-- recent --
-- The newest calls of all accounts, by id.
SELECT l.id, l.created_at, l.submitted_at, l.account_id, l.key_id, k.name, k.prefix, l.request_id, l.model, l.status,
    l.error_code, l.error_message, l.input_tokens, l.output_tokens, l.cached_tokens, l.unit_count, l.unit_type,
    l.cost_nano_usd, l.latency_ms, l.task_id, NULL, NULL, NULL
FROM (
    SELECT * FROM call_logs WHERE %(before)s IS NULL OR id < %(before)s ORDER BY id DESC LIMIT %(limit)s
) l LEFT JOIN keys k ON k.id = l.key_id
ORDER BY l.id DESC

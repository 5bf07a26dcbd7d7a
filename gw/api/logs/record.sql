-- by_id --
-- One row of the call log with its key's name and, if it was corrected, its former values; visible to a reader of all
-- rows, of an account's, or of a key's.
SELECT l.id, l.created_at, l.submitted_at, l.account_id, l.key_id, k.name, l.request_id, l.protocol, l.model, l.status,
       l.error_code, l.error_message, l.input_tokens, l.output_tokens, l.cached_tokens, l.unit_count, l.unit_type,
       l.cost_nano_usd, l.latency_ms, l.task_id, l.attribution, l.attempts, l.detail,
       c.corrected_at,
       c.row_before ->> 'status', c.cost_before_nano_usd
FROM call_logs l LEFT JOIN keys k ON k.id = l.key_id
LEFT JOIN call_log_corrections c ON c.call_id = l.request_id AND c.cause <> 'duplicate_row'
WHERE l.id = %(id)s AND (%(account)s::text IS NULL OR l.account_id = %(account)s)
  AND (%(key)s::text IS NULL OR l.key_id = %(key)s)

-- id_of_trace --
-- The id of the row of a call.
SELECT id FROM call_logs WHERE request_id = %s::uuid

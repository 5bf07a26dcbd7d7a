-- callers --
-- The pairs of account and model with calls of these models since a day.
SELECT DISTINCT account_id, model FROM call_log_rollups
WHERE hours = 24 AND bucket >= date_trunc('day', %(since)s::timestamptz, 'UTC') AND model = ANY (%(models)s)
ORDER BY 1, 2

-- calls --
-- The paid calls of an account and a model after a given one, in order, at most `limit`.
SELECT created_at, id, input_tokens, output_tokens, cached_tokens, detail
FROM call_logs
WHERE account_id = %(account)s AND model = %(model)s AND (created_at, id) > (%(since)s, %(id)s) AND cost_nano_usd > 0
ORDER BY created_at, id LIMIT %(limit)s

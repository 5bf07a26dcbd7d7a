-- sums --
-- The window's sums by status, by UTC day and by model, from pieces that are added or subtracted, in one snapshot.
-- Columns: which of the three, its value, requests, cost and tokens.
WITH piece AS (
    SELECT * FROM unnest(%(hours)s::smallint[], %(starts)s::timestamptz[], %(ends)s::timestamptz[],
        %(signs)s::integer[]) AS x(hours, start, stop, sign)
), part AS (
    SELECT r.bucket AS at, r.model, r.status, p.sign * r.requests AS requests, p.sign * r.cost_nano_usd AS cost,
        p.sign * r.input_tokens AS input, p.sign * r.output_tokens AS output, p.sign * r.cached_tokens AS cached
    FROM piece p CROSS JOIN LATERAL (
        SELECT * FROM call_log_rollups
        WHERE account_id = %(account)s AND hours = p.hours AND bucket >= p.start AND bucket < p.stop
            AND (%(key)s IS NULL OR key_id = %(key)s)
        OFFSET 0
    ) r
    WHERE p.hours > 0
    UNION ALL
    SELECT l.created_at, l.model, l.status, p.sign, p.sign * l.cost_nano_usd,
        p.sign * l.input_tokens, p.sign * l.output_tokens, p.sign * l.cached_tokens
    FROM piece p CROSS JOIN LATERAL (
        SELECT * FROM call_logs
        WHERE account_id = %(account)s AND created_at >= p.start AND created_at < p.stop
            AND (%(key)s IS NULL OR key_id = %(key)s)
        OFFSET 0
    ) l
    WHERE p.hours = 0
), whole AS (
    SELECT (at AT TIME ZONE 'UTC')::date AS day, model, status, sum(requests) AS requests, sum(cost) AS cost,
        sum(input) AS input, sum(output) AS output, sum(cached) AS cached
    FROM part GROUP BY 1, 2, 3
)
SELECT CASE WHEN grouping(status) = 0 THEN 'status' WHEN grouping(day) = 0 THEN 'day' ELSE 'model' END,
    coalesce(status, day::text, model), sum(requests)::bigint, sum(cost), sum(input)::bigint,
    sum(output)::bigint, sum(cached)::bigint
FROM whole GROUP BY GROUPING SETS ((status), (day), (model))
HAVING sum(requests) <> 0

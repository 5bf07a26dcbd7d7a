-- sums --
-- The window's sums by key of an agent and by status, from pieces that are added or subtracted, in one snapshot.
WITH piece AS (
    SELECT * FROM unnest(%(hours)s::smallint[], %(starts)s::timestamptz[], %(ends)s::timestamptz[],
        %(signs)s::integer[]) AS x(hours, start, stop, sign)
), own AS MATERIALIZED (
    SELECT id, name FROM keys WHERE agent_id = %(agent)s AND account_id = %(account)s
), part AS (
    SELECT r.key_id, r.status, p.sign * r.requests AS requests, p.sign * r.cost_nano_usd AS cost,
        p.sign * r.input_tokens AS input, p.sign * r.output_tokens AS output, p.sign * r.cached_tokens AS cached
    FROM piece p JOIN call_log_rollups r ON r.account_id = %(account)s AND r.hours = p.hours
        AND r.bucket >= p.start AND r.bucket < p.stop
    WHERE p.hours > 0 AND r.key_id IN (SELECT id FROM own)
    UNION ALL
    SELECT l.key_id, l.status, p.sign, p.sign * l.cost_nano_usd,
        p.sign * l.input_tokens, p.sign * l.output_tokens, p.sign * l.cached_tokens
    FROM piece p CROSS JOIN own k CROSS JOIN LATERAL (
        SELECT * FROM call_logs WHERE key_id = k.id AND created_at >= p.start AND created_at < p.stop OFFSET 0
    ) l
    WHERE p.hours = 0
)
SELECT part.key_id, own.name, part.status, sum(requests)::bigint, sum(cost)::bigint, sum(input)::bigint,
    sum(output)::bigint, sum(cached)::bigint
FROM part JOIN own ON own.id = part.key_id
GROUP BY 1, 2, 3 HAVING sum(requests) <> 0

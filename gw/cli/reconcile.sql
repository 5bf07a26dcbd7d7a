-- bought --
-- The usage of a day's calls by model and channel, without rows that no upstream counted. A row with failed attempts that
-- may be billed has all its attempts in its detail; a response that nobody received has the usage that was stated. Old
-- rows without a channel have it in their receipt. The row of a chain has the chain as its model, and in its detail the one
-- that was tried.
SELECT coalesce(b.model, l.model), b.channel, count(*) FILTER (WHERE b.is_used)::bigint,
    count(b.input) FILTER (WHERE NOT b.is_used)::bigint, count(*) FILTER (WHERE b.input IS NULL)::bigint,
    count(*) FILTER (WHERE b.input IS NOT NULL AND b.cost IS NULL)::bigint,
    coalesce(sum(b.input), 0)::bigint, coalesce(sum(b.cached), 0)::bigint, coalesce(sum(b.written), 0)::bigint,
    coalesce(sum(b.output), 0)::bigint, coalesce(sum(b.cost), 0)::bigint
FROM accounts a
CROSS JOIN LATERAL (
    SELECT * FROM call_logs WHERE account_id = a.id
        AND created_at >= %(day)s::date::timestamp AT TIME ZONE 'UTC'
        AND created_at < (%(day)s::date + 1)::timestamp AT TIME ZONE 'UTC' OFFSET 0) l
CROSS JOIN LATERAL (
    SELECT coalesce(l.channel_id, l.detail #>> '{tried,-1,0}') AS channel, true AS is_used,
        coalesce((s.stated ->> 'input')::bigint, l.input_tokens) AS input,
        coalesce((s.stated ->> 'cached')::bigint, l.cached_tokens) AS cached,
        coalesce((coalesce(s.stated, l.detail) ->> 'cache_write')::bigint, 0) AS written,
        coalesce((s.stated ->> 'output')::bigint, l.output_tokens) AS output, l.upstream_cost_nano_usd AS cost,
        coalesce(l.detail ->> 'served', l.detail #>> '{chain,-1}') AS model
    FROM (SELECT CASE WHEN l.input_tokens + l.output_tokens = 0 THEN l.detail #> '{upstream,usage}' END AS stated) s
    WHERE l.detail -> 'bought' IS NULL
        AND (l.input_tokens > 0 OR l.output_tokens > 0 OR l.cost_nano_usd > 0 OR l.upstream_cost_nano_usd > 0)
    UNION ALL
    SELECT one ->> 0, (one ->> 1)::boolean, (one #>> '{2,0}')::bigint, (one #>> '{2,1}')::bigint,
        (one #>> '{2,2}')::bigint, (one #>> '{2,3}')::bigint, (one ->> 3)::bigint, one ->> 4
    FROM json_array_elements(l.detail -> 'bought') one) b
GROUP BY 1, 2

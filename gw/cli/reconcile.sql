-- bought --
-- The usage of a day's calls by model and channel, without rows that no upstream counted. Old rows without a channel have
-- it in their receipt.
SELECT l.model, coalesce(l.channel_id, l.detail #>> '{tried,-1,0}'), count(*)::bigint,
    sum(l.input_tokens)::bigint, sum(l.cached_tokens)::bigint,
    sum(coalesce((l.detail ->> 'cache_write')::bigint, 0))::bigint, sum(l.output_tokens)::bigint,
    coalesce(sum(l.upstream_cost_nano_usd), 0)::bigint,
    count(*) FILTER (WHERE l.upstream_cost_nano_usd IS NULL)::bigint
FROM accounts a
CROSS JOIN LATERAL (
    SELECT * FROM call_logs WHERE account_id = a.id
        AND created_at >= %(day)s::date::timestamp AT TIME ZONE 'UTC'
        AND created_at < (%(day)s::date + 1)::timestamp AT TIME ZONE 'UTC' OFFSET 0) l
WHERE l.input_tokens > 0 OR l.output_tokens > 0 OR l.cost_nano_usd > 0 OR l.upstream_cost_nano_usd > 0
GROUP BY 1, 2

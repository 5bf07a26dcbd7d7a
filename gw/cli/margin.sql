-- margins --
-- Revenue and cost of the calls of these days, grouped by one of their columns. Sums of unknown cost have a mark after
-- the channel (`call_logs_roll_up`); calls before these sums are only in the log's own sums, so the difference
-- between the two is of unknown cost.
WITH counted AS (
    SELECT day, account_id, model, split_part(channel_id, ' ', 1) AS channel, requests, unknown_costs,
        cost_nano_usd AS revenue, CASE WHEN unknown_costs = 0 THEN cost_nano_usd ELSE 0 END AS known_revenue,
        upstream_cost_nano_usd AS cost
    FROM call_log_margins WHERE day BETWEEN %(first)s AND %(last)s
    UNION ALL
    SELECT (r.bucket AT TIME ZONE 'UTC')::date, a.id, r.model, '', r.requests, r.requests, r.cost_nano_usd, 0, 0
    FROM accounts a
    CROSS JOIN LATERAL (
        SELECT * FROM call_log_rollups WHERE account_id = a.id AND hours = 24
            AND bucket >= %(first)s::date::timestamp AT TIME ZONE 'UTC'
            AND bucket < (%(last)s::date + 1)::timestamp AT TIME ZONE 'UTC') r
    UNION ALL
    SELECT day, account_id, model, '', -requests, -requests, -cost_nano_usd, 0, 0
    FROM call_log_margins WHERE day BETWEEN %(first)s AND %(last)s
)
SELECT {by}::text, sum(requests)::bigint, sum(unknown_costs)::bigint, sum(revenue)::bigint,
    sum(known_revenue)::bigint, sum(cost)::bigint
FROM counted GROUP BY 1
HAVING (sum(requests), sum(unknown_costs), sum(revenue), sum(cost)) <> (0, 0, 0, 0)
ORDER BY 1

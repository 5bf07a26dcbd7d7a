-- top --
-- The subjects that have spent most of each budget with a sum of each, in the period that began at an instant.
SELECT b.id, s.subject, s.spent_nano_usd, s.held_nano_usd
FROM unnest(%(ids)s::text[], %(periods)s::timestamptz[]) AS b (id, period_from)
CROSS JOIN LATERAL (
    SELECT subject, spent_nano_usd, held_nano_usd FROM budget_sums
    WHERE account_id = %(account)s AND budget_id = b.id AND period_from = b.period_from
        AND budget_id <> 'run' -- as its index has it
    ORDER BY spent_nano_usd + held_nano_usd DESC, subject LIMIT %(limit)s
) s

-- refusals --
-- The latest calls of an account that a budget refused: id, instant, key, model, budget, its limit, what was needed.
WITH newest AS MATERIALIZED (
    SELECT l.id, l.created_at, k.name AS key_name, l.model, l.detail
    FROM call_logs l LEFT JOIN keys k ON k.id = l.key_id
    WHERE l.account_id = %(account)s AND l.error_code = %(code)s ORDER BY l.created_at DESC, l.id DESC LIMIT %(calls)s
)
SELECT id, created_at, key_name, model, detail #>> '{budget,id}', (detail #>> '{budget,limit}')::bigint,
    (detail #>> '{budget,needed}')::bigint
FROM newest WHERE detail -> 'budget' IS NOT NULL
ORDER BY created_at DESC, id DESC LIMIT %(limit)s

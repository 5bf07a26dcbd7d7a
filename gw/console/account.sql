-- accounts --
-- A page of accounts, the newest first; all, or those whose name or id contains a text.
SELECT {{columns}}
FROM accounts a
WHERE (%(after_at)s IS NULL OR (created_at, id) < (%(after_at)s::timestamptz, %(after_id)s))
    AND (%(search)s IS NULL OR name ILIKE %(search)s OR id LIKE %(search)s)
ORDER BY created_at DESC, id DESC LIMIT %(limit)s

-- credits --
-- The credits of an account and operators' corrections, the newest first; each by an index of its own.
SELECT created_at, kind, amount_nano_usd FROM (
    (SELECT created_at, id, kind::text, amount_nano_usd FROM entries
     WHERE account_id = %(account)s AND kind IN ('topup', 'trial') ORDER BY created_at DESC, id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT created_at, id, kind::text, amount_nano_usd FROM entries
     WHERE account_id = %(account)s AND kind = 'correction' AND call_id IS NULL
     ORDER BY created_at DESC, id DESC LIMIT %(limit)s)) given
ORDER BY created_at DESC, id DESC LIMIT %(limit)s

-- spenders --
-- The keys of an account with the highest cost since an instant, each with its agent.
SELECT r.key_id, k.name, a.id, a.name, sum(r.requests)::bigint, sum(r.cost_nano_usd)::bigint
FROM call_log_rollups r LEFT JOIN keys k ON k.id = r.key_id LEFT JOIN agents a ON a.id = k.agent_id
WHERE r.account_id = %(account)s AND r.hours = 24 AND r.bucket >= %(start)s
GROUP BY 1, 2, 3, 4 ORDER BY 6 DESC, 1 LIMIT %(limit)s

-- conversations --
-- The conversations with the highest cost among an account's newest calls: label, calls, cost, last call, its instant.
WITH newest AS MATERIALIZED (
    SELECT id, created_at, cost_nano_usd, detail ->> 'conversation' AS conversation FROM call_logs
    WHERE account_id = %(account)s AND created_at >= %(start)s
    ORDER BY created_at DESC, id DESC LIMIT %(calls)s
)
SELECT conversation, count(*), sum(cost_nano_usd)::bigint, max(id), max(created_at)
FROM newest WHERE conversation IS NOT NULL GROUP BY 1 ORDER BY 3 DESC, 4 DESC LIMIT %(limit)s

-- last_minute --
-- An account's calls that both began and ended in the last minute, and the start of the oldest.
SELECT count(*), min(submitted_at) FROM call_logs
WHERE account_id = %s AND created_at > now() - interval '1 minute' AND submitted_at > now() - interval '1 minute'
    AND status <> 'rejected'

-- statement --
-- A portion of credits, operators' corrections and calls by time. Calls are as they are now, after corrections.
(
    SELECT created_at, 0, id, kind::text, NULL::text, NULL::text, NULL::text, amount_nano_usd
    FROM entries
    WHERE account_id = %(account)s AND kind IN ('topup', 'trial') AND created_at >= %(after_at)s AND created_at < %(end)s
        AND (created_at, 0, id) > (%(after_at)s, %(after_kind)s, %(after_id)s)
    ORDER BY created_at, id LIMIT %(limit)s
) UNION ALL (
    SELECT created_at, 0, id, kind::text, NULL, NULL, NULL, amount_nano_usd
    FROM entries
    WHERE account_id = %(account)s AND kind = 'correction' AND call_id IS NULL AND created_at >= %(after_at)s
        AND created_at < %(end)s AND (created_at, 0, id) > (%(after_at)s, %(after_kind)s, %(after_id)s)
    ORDER BY created_at, id LIMIT %(limit)s
) UNION ALL (
    SELECT created_at, 1, id, 'call', request_id::text, model, key_id, -cost_nano_usd
    FROM call_logs
    WHERE account_id = %(account)s AND created_at >= %(after_at)s AND created_at < %(end)s
        AND (created_at, 1, id) > (%(after_at)s, %(after_kind)s, %(after_id)s) AND cost_nano_usd <> 0
    ORDER BY created_at, id LIMIT %(limit)s
)
ORDER BY 1, 2, 3 LIMIT %(limit)s

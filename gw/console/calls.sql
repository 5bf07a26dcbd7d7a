-- recent --
-- A page of those among the scanned rows that pass the filters, each beside what was scanned, or one row of nulls.
-- `{place}` is what the scan is ordered by.
WITH scanned AS MATERIALIZED ({scan}), passing AS (
    SELECT id, created_at, {place} AS place FROM scanned
    WHERE created_at >= %(start)s AND (%(end)s::timestamptz IS NULL OR created_at < %(end)s)
        AND (%(account)s IS NULL OR account_id = %(account)s)
        AND (%(model)s IS NULL OR model = %(model)s) AND (%(channel)s IS NULL OR channel_id = %(channel)s)
        AND (%(status)s IS NULL OR status = %(status)s)
    ORDER BY place DESC LIMIT %(limit)s
)
SELECT whole.rows, whole.lowest, a.name,
    l.id, l.created_at, l.submitted_at, l.account_id, l.key_id, k.name, k.prefix, l.request_id, l.model, l.status,
    l.error_code, l.error_message, l.input_tokens, l.output_tokens, l.cached_tokens, l.unit_count, l.unit_type,
    l.cost_nano_usd, l.latency_ms, l.task_id, NULL, NULL, NULL
FROM (SELECT count(*) AS rows, (array_agg(id ORDER BY {place}))[1] AS lowest FROM scanned) whole
LEFT JOIN passing p ON true
LEFT JOIN call_logs l ON l.id = p.id AND l.created_at = p.created_at
LEFT JOIN keys k ON k.id = l.key_id LEFT JOIN accounts a ON a.id = l.account_id
ORDER BY p.place DESC

-- by_id --
-- The newest rows of all accounts, by id.
SELECT id, created_at, account_id, model, channel_id, status FROM call_logs
WHERE id >= %(first)s AND (%(before)s IS NULL OR id < %(before)s) ORDER BY id DESC LIMIT %(scanned)s

-- of_account --
-- The newest rows of an account, by its index.
SELECT id, created_at, account_id, model, channel_id, status FROM call_logs
WHERE account_id = %(account)s
    AND created_at >= %(start)s AND (%(end)s::timestamptz IS NULL OR created_at < %(end)s)
    AND (%(before)s IS NULL
        OR (created_at, id) < ((SELECT created_at FROM call_logs WHERE id = %(before)s), %(before)s))
ORDER BY created_at DESC, id DESC LIMIT %(scanned)s

-- of_key --
-- The newest rows of a key, by its index.
SELECT id, created_at, account_id, model, channel_id, status FROM call_logs
WHERE key_id = %(key_id)s
    AND created_at >= %(start)s AND (%(end)s::timestamptz IS NULL OR created_at < %(end)s)
    AND (%(before)s IS NULL
        OR (created_at, id) < ((SELECT created_at FROM call_logs WHERE id = %(before)s), %(before)s))
ORDER BY created_at DESC, id DESC LIMIT %(scanned)s

-- named_account --
-- Accounts of an id, or else of a name, the newest first.
SELECT id, NULL FROM accounts WHERE id = %(text)s
UNION ALL
(SELECT id, NULL FROM accounts
 WHERE name = %(text)s AND NOT EXISTS (SELECT FROM accounts WHERE id = %(text)s)
 ORDER BY created_at DESC, id LIMIT %(limit)s)

-- named_key --
-- Keys of an id, or else of a name, the newest first, each beside its account's name.
SELECT id, NULL FROM keys WHERE id = %(text)s
UNION ALL
(SELECT k.id, a.name FROM keys k JOIN accounts a ON a.id = k.account_id
 WHERE k.name = %(text)s AND (%(account)s::text IS NULL OR k.account_id = %(account)s)
     AND NOT EXISTS (SELECT FROM keys WHERE id = %(text)s)
 ORDER BY k.created_at DESC, k.id LIMIT %(limit)s)

-- last_id --
-- The id of the newest row.
SELECT id FROM call_logs ORDER BY id DESC LIMIT 1

-- instant_of --
-- The instant of a row, or of the next one there is.
SELECT created_at FROM call_logs WHERE id >= %(id)s ORDER BY id LIMIT 1

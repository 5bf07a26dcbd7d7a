-- lock --
-- Lock the accounts of every call with several rows, as a batch locks them, so that they do not change meanwhile.
SELECT id FROM accounts WHERE id IN (
    SELECT account_id FROM call_logs GROUP BY account_id, request_id HAVING count(*) > 1)
ORDER BY id FOR NO KEY UPDATE

-- duplicates --
-- Every row of a call that has several, the one to be kept first: the one that the client received. That is not
-- recovery's row, if there is another; of several, the one that was paid for; else the first. `paid` is the sum of the
-- call's entries, those of dropped months as the last checkpoint carries them.
WITH several AS (
    SELECT request_id, -coalesce((SELECT sum(amount_nano_usd) FROM entries_since(coalesce(
            (SELECT max(ends_at) FROM entry_months WHERE dropped_at IS NOT NULL), '-infinity')) e
        WHERE e.call_id = request_id), 0)::bigint AS paid
    FROM call_logs GROUP BY request_id HAVING count(*) > 1
)
SELECT l.request_id::text, l.account_id, l.key_id, s.paid, l.id, l.created_at, l.status, l.error_code, l.cost_nano_usd
FROM several s JOIN call_logs l ON l.request_id = s.request_id
ORDER BY l.request_id, l.status = 'interrupted' AND coalesce(l.error_code, '') = 'gateway_restarted',
    l.cost_nano_usd <> s.paid, l.id

-- take_out --
-- Delete one row of the log, and keep a copy of it.
WITH gone AS (
    DELETE FROM call_logs l WHERE l.request_id = %(call)s::uuid AND l.created_at = %(created_at)s AND l.id = %(row)s
    RETURNING row_to_json(l) AS before
)
INSERT INTO call_log_corrections (call_id, account_id, cause, corrected_by, row_id, row_before,
    cost_before_nano_usd, cost_after_nano_usd, booked_nano_usd)
SELECT %(call)s, %(account)s, 'duplicate_row', %(by)s, %(row)s, before, %(paid)s, %(cost)s, %(booked)s FROM gone

-- book --
-- Book the difference between the amount paid for a call and the cost in the remaining row.
WITH entry AS (
    INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd, created_at)
    VALUES (%(account)s, %(key)s, %(call)s, 'correction', %(booked)s, 0,
        greatest(now(), (SELECT max(m.ends_at) FROM entry_months m WHERE m.sealed_at IS NOT NULL)))
), of_account AS (
    UPDATE accounts SET balance_nano_usd = balance_nano_usd + %(booked)s WHERE id = %(account)s
)
UPDATE key_spend SET spent_nano_usd = spent_nano_usd - %(booked)s WHERE key_id = %(key)s

-- carry --
-- Add to checkpoints what a correction refers to: all entries of these calls up to the end of each sealed month.
INSERT INTO checkpoint_entries (ends_at, id, account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd,
    created_at)
SELECT m.ends_at, e.id, e.account_id, e.key_id, e.call_id, e.kind, e.amount_nano_usd, e.held_nano_usd, e.created_at
FROM entries e JOIN entry_months m ON m.sealed_at IS NOT NULL AND m.ends_at > e.created_at
WHERE e.call_id = ANY (%s::uuid[])
ON CONFLICT DO NOTHING

-- lock --
-- Keep every month of the call log and of the entries until this transaction ends; allow one writer of checkpoints.
LOCK TABLE checkpoint_sums IN SHARE UPDATE EXCLUSIVE MODE;
LOCK TABLE call_logs, entries IN ACCESS SHARE MODE

-- ended --
-- The tables of months that ended a day ago and have no checkpoint yet.
SELECT name FROM entry_months WHERE sealed_at IS NULL AND ends_at <= now() - interval '1 day' ORDER BY ends_at

-- months --
-- The end of each month of entries in order, and whether it is sealed, dropped, and ended a day ago.
SELECT ends_at::text, sealed_at IS NOT NULL, dropped_at IS NOT NULL, ends_at <= now() - interval '1 day'
FROM entry_months ORDER BY ends_at

-- counts --
-- The numbers of rows to prove.
SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM entries WHERE created_at >= %(since)s),
       (SELECT count(*) FROM holds), (SELECT count(*) FROM leases),
       (SELECT count(*) FROM call_logs WHERE created_at >= %(since)s), (SELECT count(*) FROM idempotency),
       (SELECT count(*) FROM events) + (SELECT count(*) FROM events_written),
       (SELECT count(*) FROM budgets), (SELECT count(*) FROM budget_sums)

-- balance_is_sum_of_entries --
-- Every account's balance and held are the sums of its entries.
SELECT a.id, a.balance_nano_usd, a.held_nano_usd,
       coalesce(sum(e.amount_nano_usd), 0)::bigint, coalesce(sum(e.held_nano_usd), 0)::bigint
FROM accounts a LEFT JOIN movements(%(since)s::timestamptz) e ON e.account_id = a.id
GROUP BY a.id
HAVING a.balance_nano_usd <> coalesce(sum(e.amount_nano_usd), 0)
    OR a.held_nano_usd <> coalesce(sum(e.held_nano_usd), 0)

-- held_is_sum_of_holds --
-- Every account's held is the sum of its open holds.
SELECT a.id, a.held_nano_usd, coalesce(sum(h.amount_nano_usd), 0)::bigint
FROM accounts a LEFT JOIN holds h ON h.account_id = a.id
GROUP BY a.id HAVING a.held_nano_usd <> coalesce(sum(h.amount_nano_usd), 0)

-- leased_is_sum_of_leases --
-- Every account's leased amount is the sum of its leases.
SELECT a.id, a.leased_nano_usd, coalesce(sum(l.amount_nano_usd), 0)::bigint
FROM accounts a LEFT JOIN leases l ON l.account_id = a.id
GROUP BY a.id HAVING a.leased_nano_usd <> coalesce(sum(l.amount_nano_usd), 0)

-- budget_sum_is_sum_of_calls --
-- What a node has spent and holds in a period, and the excess, are those of the rows and open holds that name it, and of
-- rows that have been dropped. A correction's rise is excess: its hold had been released. A row may be dated by a clock that
-- is behind the database's.
WITH corrected AS (
    SELECT call_id, least(min(cost_before_nano_usd), min(cost_after_nano_usd)) AS least_nano_usd
    FROM call_log_corrections GROUP BY call_id
), parts AS (
    SELECT n.sum, l.cost_nano_usd AS spent, 0::bigint AS held,
        l.cost_nano_usd - least(l.cost_nano_usd, n.held, c.least_nano_usd) AS excess
    FROM call_logs l CROSS JOIN LATERAL budget_parts(l.budgets) n
    LEFT JOIN corrected c ON c.call_id = l.request_id
    WHERE l.budgets IS NOT NULL AND l.created_at >= (SELECT min(period_from) FROM budget_sums) - interval '100 days'
    UNION ALL
    SELECT n.sum, 0, n.held, 0
    FROM holds h CROSS JOIN LATERAL budget_parts(h.budgets) n
    WHERE h.budgets IS NOT NULL
), summed AS (
    SELECT p.sum, sum(p.spent) AS spent, sum(p.held) AS held, sum(p.excess) AS excess FROM parts p GROUP BY 1
)
SELECT s.account_id, s.budget_id, s.subject, s.period_from::text, s.spent_nano_usd, s.held_nano_usd, s.excess_nano_usd,
    (coalesce(p.spent, 0) + s.carried_spent_nano_usd)::bigint, coalesce(p.held, 0)::bigint,
    (coalesce(p.excess, 0) + s.carried_excess_nano_usd)::bigint
FROM budget_sums s
LEFT JOIN summed p ON p.sum = s.id
WHERE s.spent_nano_usd <> coalesce(p.spent, 0) + s.carried_spent_nano_usd OR s.held_nano_usd <> coalesce(p.held, 0)
    OR s.excess_nano_usd <> coalesce(p.excess, 0) + s.carried_excess_nano_usd

-- budget_is_not_passed --
-- No sum has ever passed the limit in force at its last grant, by what it has spent, holds and leases, less the excess.
SELECT account_id, budget_id, subject, period_from::text, spent_nano_usd, held_nano_usd, leased_nano_usd, excess_nano_usd,
    bound_nano_usd, overshoot_nano_usd
FROM budget_sums
WHERE overshoot_nano_usd > 0
    OR spent_nano_usd + held_nano_usd + leased_nano_usd - excess_nano_usd > coalesce(bound_nano_usd, 0)

-- budget_leased_is_sum_of_leases --
-- What is leased of a sum is what processes lease of it, each below a lease of its account.
SELECT coalesce(s.account_id, l.account_id), coalesce(s.budget_id, l.budget_id), coalesce(s.subject, l.subject),
    coalesce(s.period_from, l.period_from)::text, s.leased_nano_usd, l.amount::bigint, l.orphans
FROM budget_sums s
FULL JOIN (
    SELECT b.account_id, b.budget_id, b.subject, b.period_from, sum(b.amount_nano_usd) AS amount,
        count(*) FILTER (WHERE NOT EXISTS (SELECT FROM leases a
                                           WHERE a.process_id = b.process_id AND a.account_id = b.account_id)) AS orphans
    FROM budget_leases b GROUP BY 1, 2, 3, 4
) l ON l.account_id = s.account_id AND l.budget_id = s.budget_id AND l.subject = s.subject AND l.period_from = s.period_from
WHERE coalesce(s.leased_nano_usd, 0) <> coalesce(l.amount, 0) OR l.orphans > 0

-- runs_are_counted --
-- An account has as many ceilings of runs as it says, each run one.
SELECT a.id, a.run_ceilings, coalesce(r.runs, 0), coalesce(r.sums, 0)
FROM accounts a
LEFT JOIN (SELECT account_id, count(DISTINCT subject) AS runs, count(*) AS sums FROM budget_sums WHERE budget_id = 'run'
           GROUP BY 1) r ON r.account_id = a.id
WHERE a.run_ceilings <> coalesce(r.sums, 0) OR r.runs <> r.sums

-- lease_has_a_live_process --
-- No lease is negative or of a process without a heartbeat.
SELECT l.process_id, l.account_id, l.amount_nano_usd, extract(epoch FROM now() - p.heartbeat_at)::bigint
FROM leases l LEFT JOIN processes p ON p.id = l.process_id
WHERE l.amount_nano_usd < 0 OR p.id IS NULL
    OR l.amount_nano_usd > 0 AND p.heartbeat_at < now() - interval '30 seconds'

-- key_spend_is_sum_of_entries --
-- Every key's spent and held amounts are the sums of its entries.
SELECT coalesce(k.key_id, e.key_id), k.spent_nano_usd, k.held_nano_usd,
       -coalesce(e.amount, 0)::bigint, coalesce(e.held, 0)::bigint
FROM key_spend k
FULL JOIN (SELECT key_id, sum(amount_nano_usd) AS amount, sum(held_nano_usd) AS held
           FROM movements(%(since)s::timestamptz) WHERE key_id <> '' GROUP BY key_id) e ON e.key_id = k.key_id
WHERE (k.spent_nano_usd, k.held_nano_usd) IS DISTINCT FROM (-coalesce(e.amount, 0), coalesce(e.held, 0))

-- key_has_its_spending --
-- Every key has its sums, under its account.
SELECT coalesce(k.id, s.key_id), k.account_id, s.account_id
FROM keys k FULL JOIN key_spend s ON s.key_id = k.id WHERE k.account_id IS DISTINCT FROM s.account_id

-- entry_is_sound --
-- Every entry changes balance and held as its kind may, and belongs to a call unless it is a credit, or a correction by
-- an operator, which is of no key either.
SELECT id, kind, call_id::text, amount_nano_usd, held_nano_usd FROM entries
WHERE created_at >= %(since)s AND (call_id IS NULL AND kind NOT IN ('topup', 'trial', 'correction')
    OR call_id IS NOT NULL AND kind IN ('topup', 'trial') OR (call_id IS NULL) <> (key_id IS NULL) OR NOT CASE kind
    WHEN 'hold' THEN amount_nano_usd = 0 AND held_nano_usd >= 0
    WHEN 'settle' THEN amount_nano_usd <= 0 AND held_nano_usd <= 0
    WHEN 'refund' THEN amount_nano_usd = 0 AND held_nano_usd <= 0
    WHEN 'correction' THEN held_nano_usd = 0 AND (call_id IS NOT NULL OR amount_nano_usd <> 0)
    ELSE amount_nano_usd > 0 AND held_nano_usd = 0 END)

-- row_is_sound --
-- Every row of the call log has a known status, and a rejected one cost nothing.
SELECT request_id::text, status, cost_nano_usd FROM call_logs
WHERE created_at >= %(since)s
  AND (status NOT IN ('success', 'error', 'interrupted', 'rejected') OR status = 'rejected' AND cost_nano_usd <> 0)

-- call_is_settled_once --
-- Every call has one hold, at most one settlement or refund, and corrections only after it.
SELECT call_id::text, count(*) FILTER (WHERE kind = 'hold'),
       count(*) FILTER (WHERE kind IN ('settle', 'refund')), count(*) FILTER (WHERE kind = 'correction')
FROM entries_since(%(since)s) WHERE call_id IS NOT NULL
GROUP BY call_id
HAVING count(*) FILTER (WHERE kind = 'hold') <> 1 OR count(*) FILTER (WHERE kind IN ('settle', 'refund')) > 1
    OR count(*) FILTER (WHERE kind = 'correction') > 0 AND count(*) FILTER (WHERE kind IN ('settle', 'refund')) <> 1

-- call_is_of_one_key --
-- The entries, the row, the open hold and the job of a call name one account and one key, its recovery and corrections one
-- account.
SELECT call_id::text, 'entry', min(account), min(key), max(account), max(key)
FROM (SELECT call_id, account_id COLLATE "C" AS account, key_id COLLATE "C" AS key FROM entries_since(%(since)s)) e
WHERE call_id IS NOT NULL
GROUP BY call_id HAVING min(account) <> max(account) OR min(key) IS DISTINCT FROM max(key)
UNION ALL
SELECT e.call_id::text, o.what, e.account_id, e.key_id, o.account_id, o.key_id
FROM entries_since(%(since)s) e
JOIN (
    SELECT request_id AS call_id, 'row' AS what, account_id, key_id FROM call_logs
    WHERE created_at >= %(since)s::timestamptz - interval '1 day'
    UNION ALL SELECT call_id, 'hold', account_id, key_id FROM holds
    UNION ALL SELECT call_id, 'job', account_id, key_id FROM jobs
    UNION ALL SELECT call_id, 'recovery', account_id, NULL FROM recovered_calls
    UNION ALL SELECT call_id, 'correction', account_id, NULL FROM call_log_corrections
) o ON o.call_id = e.call_id
WHERE e.kind = 'hold' AND (o.account_id <> e.account_id OR coalesce(o.key_id, e.key_id) IS DISTINCT FROM e.key_id)

-- call_releases_its_hold --
-- A settlement or refund releases what the call's hold took, and an open hold is of that amount.
SELECT call_id::text, sum(held_nano_usd) FILTER (WHERE kind = 'hold')::bigint,
    -sum(held_nano_usd) FILTER (WHERE kind <> 'hold')::bigint
FROM entries_since(%(since)s) WHERE call_id IS NOT NULL AND kind <> 'correction'
GROUP BY call_id HAVING count(*) > 1 AND sum(held_nano_usd) <> 0
UNION ALL
SELECT h.call_id::text, e.held_nano_usd, h.amount_nano_usd
FROM holds h JOIN entries_since(%(since)s) e ON e.call_id = h.call_id AND e.kind = 'hold'
WHERE e.held_nano_usd <> h.amount_nano_usd

-- entry_is_not_of_the_future --
-- No entry is dated later than the clock of the database, or the last checkpoint if that clock went back.
SELECT id, account_id, kind, amount_nano_usd, created_at::text FROM entries
WHERE created_at >= %(since)s AND created_at > interval '5 minutes'
    + greatest(now(), (SELECT max(m.ends_at) FROM entry_months m WHERE m.sealed_at IS NOT NULL))

-- trial_is_granted_once --
-- An account has one trial credit at most, granted when it was created.
SELECT e.account_id, count(*), max(e.created_at)::text FROM entries e LEFT JOIN accounts a ON a.id = e.account_id
WHERE e.kind = 'trial' AND e.created_at >= %(since)s
GROUP BY e.account_id HAVING count(*) > 1 OR max(e.created_at) > min(a.created_at) + interval '1 hour'

-- row_is_as_written --
-- Every row has the content that it was written with, by its digest; a row of an earlier program has none.
SELECT l.id, l.request_id::text, l.account_id, l.model, l.status FROM call_logs l
WHERE l.created_at >= %(since)s AND l.digest <> call_log_digest_of(l)

-- correction_has_its_record --
-- Every correction entry is the amount in a record of a changed row, each record continues from the sum of the call's
-- entries before it, and a settlement corrected its call once, and only one of recovery's.
WITH booked AS (
    SELECT call_id, sum(amount_nano_usd) AS amount, count(*) AS entries FROM entries_since(%(since)s)
    WHERE kind = 'correction' AND call_id IS NOT NULL
    GROUP BY call_id
), corrected AS (
    SELECT call_id, sum(booked_nano_usd) AS amount, count(booked_nano_usd) AS entries FROM call_log_corrections
    GROUP BY call_id HAVING count(booked_nano_usd) > 0
)
SELECT coalesce(b.call_id, t.call_id)::text, b.amount::bigint, t.amount::bigint
FROM booked b FULL JOIN corrected t ON t.call_id = b.call_id
WHERE (b.amount, b.entries) IS DISTINCT FROM (t.amount, t.entries)
UNION ALL
SELECT c.call_id::text, c.cost_before_nano_usd, c.cost_after_nano_usd
FROM (SELECT *, lag(cost_after_nano_usd) OVER (PARTITION BY call_id ORDER BY id) AS cost_until_then
      FROM call_log_corrections) c
LEFT JOIN entries_since(%(since)s) e ON e.call_id = c.call_id AND e.kind IN ('settle', 'refund')
WHERE c.cost_before_nano_usd <> coalesce(c.cost_until_then, -e.amount_nano_usd, 0)
    OR c.cost_before_nano_usd - c.cost_after_nano_usd <> coalesce(c.booked_nano_usd, 0)
UNION ALL
SELECT c.call_id::text, count(*), NULL FROM call_log_corrections c WHERE c.cause <> 'duplicate_row'
GROUP BY c.call_id
HAVING count(*) > 1 OR NOT EXISTS (SELECT FROM recovered_calls r WHERE r.call_id = c.call_id)

-- hold_is_open_or_resolved --
-- Every hold entry is either open or resolved, never both and never neither.
SELECT e.call_id::text, h.call_id IS NOT NULL, r.id IS NOT NULL
FROM entries_since(%(since)s) e
LEFT JOIN holds h ON h.call_id = e.call_id
LEFT JOIN entries_since(%(since)s) r ON r.call_id = e.call_id AND r.kind IN ('settle', 'refund')
WHERE e.kind = 'hold' AND (h.call_id IS NULL) = (r.id IS NULL)
UNION ALL
SELECT h.call_id::text, true, NULL FROM holds h
WHERE NOT EXISTS (SELECT FROM entries_since(%(since)s) e WHERE e.call_id = h.call_id AND e.kind = 'hold')

-- settlement_has_its_row --
-- Every settlement has one call-log row with its cost, corrections included, and every row with a cost its settlement.
-- Settlements of a dropped month have no rows; up to a week after its end (the database may have been down) only the sum
-- can show a missing row (dropped_months_add_up). The counterpart of one since the checkpoint may be before it: it was
-- booked later, or by another clock, than its call ended.
WITH kept AS (
    SELECT coalesce((max(month) + interval '1 month 7 days') AT TIME ZONE 'UTC', '-infinity') AS since
    FROM call_log_dropped
), paid AS (
    SELECT call_id, sum(amount_nano_usd)::bigint AS amount_nano_usd, min(created_at) AS created_at
    FROM entries_since(%(since)s) WHERE kind IN ('settle', 'correction') AND call_id IS NOT NULL GROUP BY call_id
), logged AS (
    SELECT request_id, sum(cost_nano_usd)::bigint AS cost_nano_usd, count(*) AS row_count
    FROM call_logs WHERE created_at >= %(since)s GROUP BY request_id
), compared AS (
    SELECT coalesce(e.call_id, l.request_id) AS call_id, e.amount_nano_usd, e.created_at, l.cost_nano_usd, l.row_count,
        e.call_id IS NULL AS lacks_entry, l.request_id IS NULL AS lacks_row
    FROM paid e FULL JOIN logged l ON l.request_id = e.call_id
    WHERE l.row_count > 1 OR (-e.amount_nano_usd, 1) IS DISTINCT FROM (l.cost_nano_usd, l.row_count)
      AND (e.call_id IS NOT NULL OR l.cost_nano_usd <> 0)
), found AS (
    SELECT c.call_id, c.created_at,
        CASE WHEN c.lacks_entry THEN (SELECT sum(e.amount_nano_usd)::bigint FROM entries e
                                      WHERE e.call_id = c.call_id AND e.kind = 'settle' AND e.created_at < %(since)s)
             ELSE c.amount_nano_usd END AS amount_nano_usd,
        CASE WHEN c.lacks_row THEN (SELECT sum(l.cost_nano_usd)::bigint FROM call_logs l WHERE l.request_id = c.call_id)
             ELSE c.cost_nano_usd END AS cost_nano_usd,
        CASE WHEN c.lacks_row OR c.lacks_entry THEN (SELECT count(*) FROM call_logs l WHERE l.request_id = c.call_id)
             ELSE c.row_count END AS row_count
    FROM compared c
)
SELECT call_id::text, -amount_nano_usd, cost_nano_usd FROM found
WHERE -coalesce(amount_nano_usd, 0) <> coalesce(cost_nano_usd, 0)
  AND (row_count > 0 OR created_at >= (SELECT since FROM kept))
UNION ALL
SELECT call_id::text, -amount_nano_usd, NULL FROM found
WHERE row_count = 0 AND created_at >= (SELECT since FROM kept)
UNION ALL
SELECT call_id::text, NULL, row_count FROM found WHERE row_count > 1

-- dropped_months_add_up --
-- All amounts ever paid for calls equal the costs of the kept rows and of the dropped months.
SELECT m.cost::bigint, (d.cost + r.cost)::bigint
FROM (SELECT coalesce(-sum(amount_nano_usd), 0) AS cost FROM movements(%(since)s) WHERE key_id <> '') m,
     (SELECT coalesce(sum(cost_nano_usd), 0) AS cost, count(*) AS months FROM call_log_dropped) d,
     (SELECT coalesce(sum(cost_nano_usd), 0) AS cost FROM call_log_rollups WHERE hours = 24) r
WHERE (d.months > 0 OR %(since)s <> '-infinity') AND m.cost <> d.cost + r.cost

-- key_was_claimed_by_a_call --
-- Every idempotency key belongs to a call of its account that had a hold.
SELECT i.account_id, i.key, i.call_id::text FROM idempotency i
WHERE i.created_at >= %(since)s
  AND NOT EXISTS (SELECT FROM entries_since(%(since)s) e
                  WHERE e.call_id = i.call_id AND e.kind = 'hold' AND e.account_id = i.account_id)

-- kept_answer_is_settled --
-- Every stored response, kept or too large, is that of a settled call, or of one that began a job or is in the quarantine.
SELECT i.account_id, i.key, i.call_id::text, i.state FROM idempotency i
WHERE i.state <> 'executing' AND NOT EXISTS (SELECT FROM jobs j WHERE j.call_id = i.call_id)
  AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = i.call_id)
  AND (i.created_at >= %(since)s OR i.call_id IN (SELECT call_id FROM checkpoint_entries WHERE ends_at = %(since)s))
  AND NOT EXISTS (SELECT FROM entries_since(%(since)s) e
                  WHERE e.call_id = i.call_id AND e.kind IN ('settle', 'correction'))

-- quarantine_is_booked --
-- No settlement or row that the ledger refused waits for an operator.
SELECT call_id::text, account_id, cost_nano_usd, error, quarantined_at::text FROM quarantine
WHERE booked_at IS NULL ORDER BY quarantined_at

-- hold_has_a_live_call --
-- No hold is left by a process without a heartbeat, and one without a process is that of a job; that of a call in the
-- quarantine is named there.
SELECT h.call_id::text, h.account_id, h.amount_nano_usd,
       extract(epoch FROM now() - h.created_at)::bigint
FROM holds h LEFT JOIN processes p ON p.id = h.process_id
WHERE h.process_id IS NOT NULL AND (p.id IS NULL OR p.heartbeat_at < now() - interval '30 seconds')
  AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = h.call_id)
UNION ALL
SELECT h.call_id::text, h.account_id, h.amount_nano_usd, extract(epoch FROM now() - h.created_at)::bigint
FROM holds h
WHERE (h.process_id IS NULL OR h.job_id IS NOT NULL)
  AND NOT EXISTS (SELECT FROM jobs j WHERE (j.id, j.call_id, j.account_id) = (h.job_id, h.call_id, h.account_id))

-- job_has_its_hold_and_its_poll --
-- A job is open as long as the hold of its call: the hold is its process's during submission, the job's afterwards, when
-- the job has a poll; a job that has ended has none, nor one whose end is in the quarantine.
SELECT j.id, j.state::text, h.call_id IS NOT NULL, h.process_id IS NULL, p.job_id IS NOT NULL
FROM jobs j LEFT JOIN holds h ON h.call_id = j.call_id LEFT JOIN job_polls p ON p.job_id = j.id
WHERE (h.call_id IS NOT NULL, h.process_id IS NOT NULL, p.job_id IS NOT NULL)
    IS DISTINCT FROM (j.ended_at IS NULL, j.state = 'submitting',
        j.state IN ('queued', 'running')
            AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = j.call_id))
UNION ALL
SELECT p.job_id, NULL, NULL, NULL, true FROM job_polls p WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.id = p.job_id)

-- poll_is_due --
-- An open job has a deadline, which its poll knows, and is polled until then at the latest.
SELECT j.id, p.due_at::text, p.deadline_at::text, j.deadline_at::text
FROM job_polls p JOIN jobs j ON j.id = p.job_id
WHERE p.deadline_at <> j.deadline_at OR p.due_at > greatest(p.deadline_at, now()) + interval '1 hour'
    OR j.deadline_at > j.created_at + interval '400 days' OR p.due_at = '-infinity'

-- job_agrees_with_its_row --
-- An accepted job ended as the row of its call shows, unless that is of a dropped month.
WITH kept AS (
    SELECT coalesce((max(month) + interval '1 month 7 days') AT TIME ZONE 'UTC', '-infinity') AS since
    FROM call_log_dropped
), logged AS (
    SELECT j.id, j.state, j.ended_at, j.error_code, j.result IS NOT NULL AS has_result, l.request_id, l.status,
        l.error_code AS row_code, l.task_id, l.cost_nano_usd
    FROM jobs j LEFT JOIN call_logs l ON l.request_id = j.call_id AND l.created_at >= %(since)s
    -- Jobs that ended within a day of the checkpoint were checked before it was written.
    WHERE j.upstream_id IS NOT NULL AND j.ended_at >= (SELECT since FROM kept)
      AND j.ended_at >= %(since)s::timestamptz + interval '1 day'
)
SELECT id, state::text, error_code, status, row_code, cost_nano_usd FROM logged
WHERE (status, row_code, task_id, has_result) IS DISTINCT FROM (CASE state WHEN 'succeeded' THEN 'success'
        WHEN 'failed' THEN 'error' ELSE 'interrupted' END, error_code, id, state = 'succeeded')
    OR (error_code IS NULL) <> (state = 'succeeded') OR state <> 'succeeded' AND cost_nano_usd <> 0

-- event_numbers_have_no_gap --
-- The numbers of kept events begin after the last one deleted, end with the last one given, and leave none out. (None
-- comes twice: it is their key.)
SELECT n.purged, n.last, n.counted, count(e), min(e.sequence), max(e.sequence)
FROM event_numbers n LEFT JOIN events e ON true
GROUP BY n.is_only, n.purged, n.last, n.counted
HAVING count(e) <> n.last - n.purged OR min(e.sequence) <> n.purged + 1 OR max(e.sequence) <> n.last
    OR n.counted NOT BETWEEN 0 AND n.last OR n.purged < 0

-- event_is_written_once --
-- No event is numbered and still to be numbered, and none is there twice under two numbers.
SELECT id, count(*) FROM (SELECT id FROM events UNION ALL SELECT id FROM events_written) e GROUP BY id HAVING count(*) > 1

-- task_has_its_event --
-- A task that ended has one event: all that ended since the oldest kept event was numbered, but for an hour in which clocks
-- may differ, and none more than one.
WITH told AS (
    SELECT data ->> 'task_id' AS task, count(*) AS events
    FROM (SELECT type, data FROM events UNION ALL SELECT type, data FROM events_written) e
    WHERE type = 'task.ended' GROUP BY 1
), since AS (
    SELECT numbered_at + interval '1 hour' AS at FROM events ORDER BY sequence LIMIT 1
)
SELECT coalesce(j.id, t.task), j.ended_at::text, coalesce(t.events, 0)
FROM (SELECT id, ended_at FROM jobs WHERE upstream_id IS NOT NULL AND ended_at > (SELECT at FROM since)) j
FULL JOIN told t ON t.task = j.id
WHERE t.task IS NULL OR t.events > 1

-- rollup_is_sum_of_rows --
-- The hourly and daily sums of the call log equal its rows.
WITH counted AS (
    SELECT account_id, date_bin('1 hour', created_at, '2000-01-01 00:00:00+00') AS bucket, key_id, model, status,
        coalesce(unit_type, '') AS unit_type, coalesce(error_code, '') AS error_code,
        count(*) AS requests, sum(cost_nano_usd) AS cost, sum(input_tokens) AS input,
        sum(output_tokens) AS output, sum(cached_tokens) AS cached
    FROM call_logs WHERE created_at >= date_trunc('day', %(since)s::timestamptz, 'UTC') GROUP BY 1, 2, 3, 4, 5, 6, 7
), expected AS (
    SELECT 1 AS hours, counted.* FROM counted
    UNION ALL
    SELECT 24, account_id, date_bin('1 day', bucket, '2000-01-01 00:00:00+00'), key_id, model, status, unit_type,
        error_code, sum(requests)::bigint, sum(cost), sum(input), sum(output), sum(cached)
    FROM counted GROUP BY 2, 3, 4, 5, 6, 7, 8
)
SELECT account_id, hours, bucket::text, model, status, r.requests, e.requests, r.cost_nano_usd, e.cost::bigint
FROM expected e
FULL JOIN (SELECT * FROM call_log_rollups WHERE bucket >= date_trunc('day', %(since)s::timestamptz, 'UTC')) r USING (account_id, hours, bucket, key_id, model, status, unit_type, error_code)
WHERE (r.requests, r.cost_nano_usd, r.input_tokens, r.output_tokens, r.cached_tokens)
    IS DISTINCT FROM (e.requests, e.cost, e.input, e.output, e.cached)

-- attributed_is_sum_of_rows --
-- So do the sums of what rows say of whom their calls were for, by the hour and of the spans that have sums, of which those of
-- all keys together name none.
WITH counted AS (
    SELECT account_id, m.what, date_bin('1 hour', created_at, '2000-01-01 00:00:00+00') AS bucket, m.value, key_id,
        count(*) AS requests, sum(cost_nano_usd) AS cost, sum(input_tokens) AS input,
        sum(output_tokens) AS output, sum(cached_tokens) AS cached
    FROM call_logs CROSS JOIN LATERAL attribution_members(attribution) m
    WHERE created_at >= date_trunc('day', %(since)s::timestamptz, 'UTC') AND attribution IS NOT NULL
    GROUP BY 1, 2, 3, 4, 5
), expected AS (
    SELECT 1 AS hours, counted.* FROM counted
    UNION ALL
    SELECT * FROM (
        SELECT hours, account_id, what, b.start, value, CASE WHEN grouping(key_id) = 0 THEN key_id ELSE '' END AS key_id,
            sum(requests)::bigint, sum(cost), sum(input), sum(output), sum(cached)
        FROM counted
        CROSS JOIN (VALUES (3, interval '3 hours'), (24, interval '1 day')) g (hours, width)
        JOIN call_log_attributed_built b USING (account_id, hours)
        WHERE b.start = date_bin(g.width, bucket, '2000-01-01 00:00:00+00') AND b.is_built
        GROUP BY GROUPING SETS ((account_id, what, hours, b.start, value, key_id), (account_id, what, hours, b.start, value))
    ) s WHERE hours = 24 OR key_id = ''
), found AS (
    SELECT 1 AS hours, account_id, what, bucket, value, key_id, requests, cost_nano_usd, input_tokens, output_tokens,
        cached_tokens
    FROM call_log_attributed
    UNION ALL
    SELECT hours, account_id, what, start, value, key_id, requests, cost_nano_usd, input_tokens, output_tokens, cached_tokens
    FROM call_log_attributed_spans
)
SELECT account_id, hours, bucket::text, what, key_id, r.requests, e.requests, r.cost_nano_usd, e.cost::bigint
FROM expected e
FULL JOIN (SELECT * FROM found WHERE bucket >= date_trunc('day', %(since)s::timestamptz, 'UTC')) r
    USING (account_id, hours, what, bucket, value, key_id)
WHERE (r.requests, r.cost_nano_usd, r.input_tokens, r.output_tokens, r.cached_tokens)
    IS DISTINCT FROM (e.requests, e.cost, e.input, e.output, e.cached)

-- checkpoint_is_what_was_kept --
-- The checkpoint of a kept month equals the sums of its entries, and contains those that later ones refer to.
SELECT %(ends)s, account_id, key_id, s.entries, e.entries, s.amount_nano_usd, e.amount_nano_usd, s.held_nano_usd,
    e.held_nano_usd
FROM checkpoint_sums_of(%(since)s, %(ends)s) e
FULL JOIN (SELECT * FROM checkpoint_sums WHERE ends_at = %(ends)s) s USING (account_id, key_id)
WHERE (s.entries, s.amount_nano_usd, s.held_nano_usd) IS DISTINCT FROM (e.entries, e.amount_nano_usd, e.held_nano_usd)
UNION ALL
SELECT %(ends)s, coalesce(c.account_id, e.account_id), coalesce(c.call_id, e.call_id)::text, c.id, e.id,
    c.amount_nano_usd, e.amount_nano_usd, c.held_nano_usd, e.held_nano_usd
FROM checkpoint_entries_of(%(since)s, %(ends)s) e
FULL JOIN (SELECT * FROM checkpoint_entries WHERE ends_at = %(ends)s) c ON c.id = e.id
WHERE (c.account_id, c.key_id, c.call_id, c.kind, c.amount_nano_usd, c.held_nano_usd, c.created_at)
    IS DISTINCT FROM (e.account_id, e.key_id, e.call_id, e.kind, e.amount_nano_usd, e.held_nano_usd, e.created_at)
UNION ALL
SELECT %(ends)s, m.name, NULL, m.entries, s.entries, NULL, NULL, NULL, NULL
FROM entry_months m,
     (SELECT coalesce(sum(entries), 0)::bigint AS entries FROM checkpoint_sums WHERE ends_at = %(ends)s) s
WHERE m.ends_at = %(ends)s AND m.entries IS DISTINCT FROM s.entries

-- call_was_held_before --
-- No call of the month to be sealed has a hold in an earlier month too.
SELECT e.call_id::text, 2, NULL, NULL FROM entries e
WHERE e.kind = 'hold' AND e.created_at >= %(since)s AND e.created_at < %(ends)s
  AND EXISTS (SELECT FROM entries o WHERE o.call_id = e.call_id AND o.kind = 'hold' AND o.created_at < %(since)s)

-- seal --
-- Write the checkpoint of one month.
INSERT INTO checkpoint_sums (ends_at, account_id, key_id, entries, amount_nano_usd, held_nano_usd)
SELECT %(ends)s, account_id, key_id, entries, amount_nano_usd, held_nano_usd
FROM checkpoint_sums_of(%(since)s, %(ends)s);
INSERT INTO checkpoint_entries (ends_at, id, account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd,
    created_at)
SELECT %(ends)s, id, account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd, created_at
FROM checkpoint_entries_of(%(since)s, %(ends)s);
UPDATE entry_months SET sealed_at = now(),
    entries = (SELECT coalesce(sum(entries), 0) FROM checkpoint_sums WHERE ends_at = %(ends)s)
WHERE ends_at = %(ends)s

-- cost_is_price_times_counts --
-- Every row's cost equals its price times its counts, as in `receipt.py`: USD per million tokens or per piece, times the
-- multiplier, rounded half up once, as numeric rounds.
SELECT l.id, l.request_id::text, l.cost_nano_usd, c.expected::text
FROM call_logs l
CROSS JOIN LATERAL json_to_record(coalesce(l.detail, '{}')) AS d(price json, units json, parts json, cache_write bigint)
CROSS JOIN LATERAL json_to_record(coalesce(d.price, '{}')) AS p(
    input numeric, cached_input numeric, cache_write numeric, output numeric, multiplier numeric,
    per_image numeric, per_image_large numeric, per_reference numeric,
    per_second numeric, per_character numeric, per_generation numeric, per_call numeric,
    cache_write_1h numeric, audio_input numeric, image_input numeric, cached_audio_input numeric,
    cached_image_input numeric, audio_output numeric, image_output numeric, reasoning_output numeric,
    per_web_search numeric, per_file_search numeric, per_code_session numeric, per_request numeric)
CROSS JOIN LATERAL json_to_record(coalesce(d.units, '{}')) AS u(standard bigint, large bigint, "references" bigint,
    milliseconds bigint, characters bigint, generations bigint, calls bigint)
-- The tokens with a price of their own, calls of tools, and the request.
CROSS JOIN LATERAL json_to_record(coalesce(d.parts, '{}')) AS t(cache_write_1h bigint, audio_input bigint,
    image_input bigint, cached_audio_input bigint, cached_image_input bigint, audio_output bigint,
    image_output bigint, reasoning_output bigint, per_web_search bigint, per_file_search bigint,
    per_code_session bigint, per_request bigint)
CROSS JOIN LATERAL (SELECT least(4000000000000000000, round(coalesce(p.multiplier, 1) * CASE
        WHEN p.per_image IS NOT NULL THEN 1000000000 * (coalesce(u.standard, 0) * p.per_image
            + coalesce(u.large, 0) * coalesce(p.per_image_large, p.per_image)
            + coalesce(u."references", 0) * coalesce(p.per_reference, 0))
        WHEN p.per_second IS NOT NULL THEN 1000000 * coalesce(u.milliseconds, 0) * p.per_second
        WHEN p.per_character IS NOT NULL THEN 1000000000 * coalesce(u.characters, 0) * p.per_character
        WHEN p.per_generation IS NOT NULL THEN 1000000000 * coalesce(u.generations, 0) * p.per_generation
        WHEN p.per_call IS NOT NULL THEN 1000000000 * coalesce(u.calls, 0) * p.per_call
        ELSE 1000 * ((l.input_tokens - l.cached_tokens - coalesce(d.cache_write, 0)) * p.input
            + l.cached_tokens * coalesce(p.cached_input, p.input)
            + coalesce(d.cache_write, 0) * coalesce(p.cache_write, p.input)
            + l.output_tokens * p.output
            + CASE WHEN d.parts IS NULL THEN 0 ELSE
                coalesce(t.cache_write_1h * (p.cache_write_1h - coalesce(p.cache_write, p.input)), 0)
                + coalesce(t.audio_input * (p.audio_input - p.input), 0)
                + coalesce(t.image_input * (p.image_input - p.input), 0)
                + coalesce(t.cached_audio_input * (p.cached_audio_input - coalesce(p.cached_input, p.input)), 0)
                + coalesce(t.cached_image_input * (p.cached_image_input - coalesce(p.cached_input, p.input)), 0)
                + coalesce(t.audio_output * (p.audio_output - p.output), 0)
                + coalesce(t.image_output * (p.image_output - p.output), 0)
                + coalesce(t.reasoning_output * (p.reasoning_output - p.output), 0)
                + 1000000 * (coalesce(t.per_web_search * p.per_web_search, 0)
                    + coalesce(t.per_file_search * p.per_file_search, 0)
                    + coalesce(t.per_code_session * p.per_code_session, 0)
                    + coalesce(t.per_request * p.per_request, 0)) END)
    END)) AS expected) c
WHERE l.created_at >= %(since)s
  AND l.cost_nano_usd <> coalesce(c.expected, 0) AND (l.cost_nano_usd <> 0 OR d.price IS NOT NULL)

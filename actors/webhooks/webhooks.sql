-- count --
-- How many webhooks work, and how many processes share them.
SELECT (SELECT count(*) FROM webhooks WHERE enabled AND deleted_at IS NULL),
    (SELECT count(*) FROM processes WHERE buried_at IS NULL)

-- unclaimed --
-- The webhooks that work and that no living process has.
SELECT w.id FROM webhooks w
WHERE w.enabled AND w.deleted_at IS NULL
    AND NOT EXISTS (SELECT FROM processes p WHERE p.id = w.claimed_by AND p.buried_at IS NULL)
ORDER BY w.id

-- claim --
-- Claim these webhooks, those that no living process has; only a living process can.
UPDATE webhooks w SET claimed_by = %(process)s, claim = claim + 1
WHERE w.id = ANY (%(webhooks)s)
    AND NOT EXISTS (SELECT FROM processes p WHERE p.id = w.claimed_by AND p.buried_at IS NULL)
    AND EXISTS (SELECT FROM processes p WHERE p.id = %(process)s AND p.buried_at IS NULL)

-- claimed --
-- The webhooks of a process, with what it needs for sending.
SELECT id, claim, url, enabled, sealed_secret, CASE WHEN previous_until > now() THEN previous_secret END, after_sequence
FROM webhooks WHERE claimed_by = %s AND deleted_at IS NULL

-- release --
-- Give back the webhooks of a process.
UPDATE webhooks SET claimed_by = NULL WHERE claimed_by = %s

-- take_in --
-- Take the next events of a webhook from the outbox.
SELECT webhook_take_in(%(webhook)s, %(process)s, %(claim)s, %(read)s, %(queue)s)

-- due --
-- Deliveries to be attempted now: of each webhook so many that were not tried yet, by their numbers, and so many others
-- that are due; without the known ones.
SELECT w.id, w.claim, d.is_first, d.attempts, {{columns}}
FROM json_to_recordset(%(wanted)s) AS wish(id text, claim bigint, firsts integer, laters integer, known bigint[])
JOIN webhooks w ON w.id = wish.id AND w.claim = wish.claim AND w.claimed_by = %(process)s AND w.enabled
    AND w.deleted_at IS NULL
CROSS JOIN LATERAL (
    (SELECT f.sequence, true AS is_first, f.attempts FROM webhook_deliveries f
     WHERE f.webhook_id = w.id AND f.status = 'pending' AND f.next_attempt_at IS NULL
         AND f.sequence <> ALL (wish.known)
     ORDER BY f.sequence LIMIT wish.firsts)
    UNION ALL
    (SELECT l.sequence, false, l.attempts FROM webhook_deliveries l
     WHERE l.webhook_id = w.id AND l.status = 'pending' AND l.next_attempt_at <= clock_timestamp()
         AND l.sequence <> ALL (wish.known)
     ORDER BY l.next_attempt_at, l.sequence LIMIT wish.laters)) d
JOIN events e ON e.sequence = d.sequence
ORDER BY d.is_first DESC, d.sequence

-- book --
-- Book the ends of attempts; the webhooks that were disabled by them, and why.
SELECT webhook_id, reason FROM webhook_book(%(process)s, %(ends)s::json, %(failing_days)s)

-- standing --
-- How many deliveries are pending, and for how many seconds the oldest event that was not sent once has waited.
SELECT coalesce(sum(w.pending), 0), coalesce(max(extract(epoch FROM clock_timestamp() - e.numbered_at)), 0)::float8
FROM webhooks w
LEFT JOIN events e ON e.sequence = coalesce(
    (SELECT d.sequence FROM webhook_deliveries d
     WHERE d.webhook_id = w.id AND d.status = 'pending' AND d.next_attempt_at IS NULL ORDER BY d.sequence LIMIT 1),
    w.after_sequence + 1)
WHERE w.enabled AND w.deleted_at IS NULL

-- purge --
-- Delete old deliveries; the most of one webhook.
SELECT webhooks_purge(%s)

-- last --
-- The number of the last event that was numbered.
SELECT last FROM event_numbers

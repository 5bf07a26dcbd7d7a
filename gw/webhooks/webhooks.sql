-- lock --
-- Make and count webhooks one at a time, while no event is numbered.
SELECT last FROM event_numbers FOR UPDATE

-- count --
-- How many there are.
SELECT count(*) FROM webhooks WHERE deleted_at IS NULL

-- insert --
-- Insert a webhook of the events that are numbered from here on.
INSERT INTO webhooks (id, {{new_columns}}, sealed_secret, after_sequence)
SELECT %(id)s, {{new_values}}, %(sealed_secret)s, last FROM event_numbers

-- show --
-- One webhook.
SELECT {{columns}} FROM webhooks w WHERE w.id = %s AND w.deleted_at IS NULL

-- newest_first --
-- Webhooks of an account, or all, the newest first.
SELECT {{columns}} FROM webhooks w
WHERE w.deleted_at IS NULL AND (%(account)s::text IS NULL OR w.account_id = %(account)s)
    AND (%(at)s::timestamptz IS NULL OR (w.created_at, w.id) < (%(at)s, %(id)s))
ORDER BY w.created_at DESC, w.id DESC LIMIT %(limit)s

-- change --
-- Change settings, as far as given; one that works again, or elsewhere, has not failed yet.
UPDATE webhooks SET {{settings}},
    disabled_for = CASE WHEN %(set_enabled)s THEN NULL ELSE disabled_for END,
    failing_since = CASE WHEN %(set_enabled)s AND %(enabled)s OR %(set_url)s THEN NULL ELSE failing_since END
WHERE id = %(id)s AND deleted_at IS NULL

-- delete --
-- Delete a webhook; its rows go later.
UPDATE webhooks SET deleted_at = now() WHERE id = %s AND deleted_at IS NULL

-- secrets --
-- The secrets that sign, sealed, the newest first; the second one may be null.
SELECT url, sealed_secret, CASE WHEN previous_until > now() THEN previous_secret END
FROM webhooks WHERE id = %s AND deleted_at IS NULL

-- rotate --
-- Replace the secret; the one before signs too for some hours.
UPDATE webhooks SET sealed_secret = %(sealed_secret)s,
    previous_secret = CASE WHEN %(hours)s > 0 THEN sealed_secret END,
    previous_until = CASE WHEN %(hours)s > 0 THEN now() + make_interval(hours => %(hours)s) END
WHERE id = %(id)s AND deleted_at IS NULL

-- sealed --
-- Every sealed secret, for sealing it anew.
SELECT id, sealed_secret, previous_secret FROM webhooks WHERE deleted_at IS NULL ORDER BY id

-- reseal --
-- Replace sealed secrets that have not changed since.
UPDATE webhooks SET sealed_secret = %(secret)s, previous_secret = %(previous)s
WHERE id = %(id)s AND sealed_secret = %(was)s

-- deliveries --
-- Deliveries of a webhook, of one status or all, the newest events first.
SELECT event_id, sequence, type, status, attempts, last_attempt_at, last_outcome, next_attempt_at
FROM webhook_deliveries
WHERE webhook_id = %(webhook)s AND (%(before)s::bigint IS NULL OR sequence < %(before)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
ORDER BY sequence DESC LIMIT %(limit)s

-- replay --
-- Make deliveries pending again; how many, -1 if they are too many.
SELECT webhook_replay(%(webhook)s, %(event)s, %(from)s, %(to)s, %(queue)s)

-- is_pending --
-- Whether the delivery of an event is pending.
SELECT EXISTS (SELECT FROM webhook_deliveries d JOIN events e USING (sequence)
    WHERE d.webhook_id = %s AND d.status = 'pending' AND e.id = %s)

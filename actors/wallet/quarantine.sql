-- keep --
-- Keep a message that the ledger refused, let its job rest and end its idempotency key (`ended`: null, or as
-- `idempotency_end` takes it). A call's own settlement replaces one that recovery made for it.
WITH rested AS (DELETE FROM job_polls WHERE job_id = %(job)s), kept AS (
INSERT INTO quarantine (call_id, account_id, key_id, cost_nano_usd, is_recovery, error, message)
VALUES (%(call)s, %(account)s, %(key)s, %(cost)s, %(is_recovery)s, %(error)s, %(message)s)
ON CONFLICT (call_id) DO UPDATE SET cost_nano_usd = excluded.cost_nano_usd, is_recovery = false, error = excluded.error,
    message = excluded.message
WHERE quarantine.is_recovery AND NOT excluded.is_recovery AND quarantine.booked_at IS NULL
RETURNING call_id)
SELECT idempotency_end(%(ended)s, array_agg(call_id)) FROM kept

-- rest --
-- Let the job of a message rest that is kept in a file.
DELETE FROM job_polls WHERE job_id = %s

-- listed --
-- What is not booked, oldest first.
SELECT call_id::text, account_id, key_id, cost_nano_usd, error, quarantined_at FROM quarantine
WHERE booked_at IS NULL ORDER BY quarantined_at, call_id LIMIT 1000

-- take --
-- One message, which no one else books meanwhile.
SELECT message, booked_as FROM quarantine WHERE call_id = %s FOR UPDATE

-- booked --
-- Note how a message was booked, and by whom.
UPDATE quarantine SET booked_at = now(), booked_by = %(by)s, booked_as = %(how)s WHERE call_id = %(call)s

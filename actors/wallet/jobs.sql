-- hand_over --
-- Make the hold of this call its job's; false when it is not open. What becomes of its idempotency key, null: nothing.
SELECT job_hand_over(%s, %s)

-- open_job --
-- The hold of an open job, if the job has taken it over.
SELECT h.call_id::text, h.account_id, h.key_id, h.call::text, h.amount_nano_usd
FROM jobs j JOIN holds h ON h.call_id = j.call_id
WHERE j.id = %s AND h.process_id IS NULL

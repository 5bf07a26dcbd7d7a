-- beat --
-- Write a heartbeat, unless others have declared the process dead; return the accounts of which it has a lease that is
-- called back.
UPDATE processes p SET heartbeat_at = now() WHERE p.id = %s AND p.buried_at IS NULL
RETURNING ARRAY(SELECT l.account_id FROM leases l WHERE l.process_id = p.id AND l.called_at IS NOT NULL)

-- register --
-- Register the process under this id.
INSERT INTO processes (id, host, boot_id, pid, pid_started) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (id) DO NOTHING

-- delivered --
-- Store what calls under way have delivered so far. A hold that is being settled is skipped: waiting for it could
-- deadlock, and its report is no longer needed.
UPDATE holds h SET delivered = x.delivered
FROM (SELECT open.call_id, reported.delivered
      FROM json_to_recordset(%s) AS reported(call_id uuid, delivered json)
      JOIN holds open USING (call_id)
      FOR NO KEY UPDATE OF open SKIP LOCKED) x
WHERE h.call_id = x.call_id

-- leave --
-- The process of these ids ends regularly; each row is kept while recovery may have to settle a hold of it.
DELETE FROM processes p
WHERE p.id = ANY (%s) AND NOT EXISTS (
    SELECT FROM holds h WHERE h.process_id = p.id
        AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = h.call_id))

-- others --
-- The other processes, with their last heartbeats, and whether each was declared dead.
SELECT id, host, boot_id, pid, pid_started, heartbeat_at, buried_at IS NOT NULL FROM processes WHERE id <> %s

-- declare_dead --
-- Declare a process dead: in any case, or only if this is still its last heartbeat.
SELECT process_bury(%s, %s, %s)

-- called_back --
-- The leases of other processes that are called back, and since when.
SELECT process_id, account_id, called_at FROM leases
WHERE called_at IS NOT NULL AND amount_nano_usd > 0 AND process_id <> %s

-- called_back_of --
-- The leases of an account that are called back, and since when.
SELECT process_id, account_id, called_at FROM leases
WHERE account_id = %s AND called_at IS NOT NULL AND amount_nano_usd > 0

-- take_lease --
-- Take a lease from a process if it has been called back since that time.
SELECT lease_take(%s, %s, %s)

-- orphans --
-- Processes without a row, with holds older than so many seconds: they may hold nothing more.
SELECT DISTINCT h.process_id FROM holds h
WHERE h.process_id IS NOT NULL AND h.created_at < now() - make_interval(secs => %s)
    AND NOT EXISTS (SELECT FROM processes p WHERE p.id = h.process_id)
    AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = h.call_id)

-- holds_of --
-- The open holds of a process, oldest first; without those whose settlements are in the quarantine.
SELECT call_id::text, account_id, key_id, job_id, call::text, delivered::text FROM holds h
WHERE process_id = %s AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = h.call_id)
ORDER BY created_at LIMIT 1000

-- old_holds_of --
-- Holds of a process that have been open for longer than so many seconds; without those in the quarantine.
SELECT call_id::text, account_id, key_id, job_id, call::text, delivered::text FROM holds h
WHERE process_id = %s AND created_at < now() - make_interval(secs => %s)
    AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = h.call_id)

-- count_holds_of --
-- Number of open holds of the process of these ids that recovery may have to settle.
SELECT count(*) FROM holds h
WHERE process_id = ANY (%s) AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = h.call_id)

-- recovered_of --
-- Those of these calls that recovery has settled, and that no true settlement has corrected.
SELECT replace(r.call_id::text, '-', '') FROM recovered_calls r
WHERE r.call_id = ANY (%s::uuid[])
    AND NOT EXISTS (SELECT FROM call_log_corrections c WHERE c.call_id = r.call_id AND c.cause <> 'duplicate_row')

-- unknown_of --
-- Those of these calls that the ledger does not know: no open hold, no row, not settled by recovery, not in the
-- quarantine.
SELECT replace(c::text, '-', '') FROM unnest(%s::uuid[]) c
WHERE NOT EXISTS (SELECT FROM holds h WHERE h.call_id = c) AND NOT ledger_knows(c)
    AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = c)

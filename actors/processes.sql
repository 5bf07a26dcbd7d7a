-- beat --
-- The process lives, unless others have declared it dead.
UPDATE processes SET heartbeat_at = now() WHERE id = %s AND buried_at IS NULL

-- register --
-- The process begins to live under this id.
INSERT INTO processes (id, host, boot_id, pid, pid_started) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (id) DO NOTHING

-- delivered --
-- What calls under way have delivered so far. A hold that is being settled at this moment is passed over:
-- waiting for it could end in a deadlock, and a report of it no longer matters.
UPDATE holds h SET delivered = x.delivered
FROM (SELECT open.call_id, reported.delivered
      FROM json_to_recordset(%s) AS reported(call_id uuid, delivered json)
      JOIN holds open USING (call_id)
      FOR NO KEY UPDATE OF open SKIP LOCKED) x
WHERE h.call_id = x.call_id

-- leave --
-- The process of these ids ends in good order; each is kept while a hold of it is open, so that recovery finds it.
DELETE FROM processes p
WHERE p.id = ANY (%s) AND NOT EXISTS (SELECT FROM holds h WHERE h.process_id = p.id)

-- others --
-- The other processes, when each last gave a sign of life, and whether it was declared dead.
SELECT id, host, boot_id, pid, pid_started, heartbeat_at, buried_at IS NOT NULL FROM processes WHERE id <> %s

-- declare_dead --
-- Declare a process dead: in any case, or only if this is still its last sign of life.
SELECT process_bury(%s, %s, %s)

-- orphans --
-- Processes that left no row behind, only holds older than so many seconds: these may hold nothing more.
SELECT DISTINCT h.process_id FROM holds h
WHERE h.process_id IS NOT NULL AND h.created_at < now() - make_interval(secs => %s) AND NOT EXISTS (SELECT FROM processes p WHERE p.id = h.process_id)

-- holds_of --
-- The open holds of a process, oldest first.
SELECT call_id::text, account_id, key_id, job_id, call::text, delivered::text FROM holds WHERE process_id = %s ORDER BY created_at LIMIT 1000

-- old_holds_of --
-- Holds of a process that have been open for longer than so many seconds.
SELECT call_id::text, account_id, key_id, job_id, call::text, delivered::text FROM holds WHERE process_id = %s AND created_at < now() - make_interval(secs => %s)

-- count_holds_of --
-- How many holds of the process of these ids are open.
SELECT count(*) FROM holds WHERE process_id = ANY (%s)

-- recovered_of --
-- Those of these calls that recovery has settled, and no true settlement has corrected.
SELECT replace(r.call_id::text, '-', '') FROM recovered_calls r
WHERE r.call_id = ANY (%s::uuid[])
    AND NOT EXISTS (SELECT FROM call_log_corrections c WHERE c.call_id = r.call_id AND c.cause <> 'duplicate_row')

-- unknown_of --
-- Those of these calls that the ledger does not know: no open hold, no row, and recovery did not settle them.
SELECT replace(c::text, '-', '') FROM unnest(%s::uuid[]) c
WHERE NOT EXISTS (SELECT FROM holds h WHERE h.call_id = c) AND NOT ledger_knows(c)

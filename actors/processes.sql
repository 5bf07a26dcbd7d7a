-- beat --
-- The process lives. It is made anew when another took it for dead.
INSERT INTO processes (id, host, boot_id, pid) VALUES (%s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = now()

-- delivered --
-- What calls under way have delivered so far. A hold that is being settled at this moment is left alone:
-- waiting for it could end in a deadlock, and what is said of it no longer matters.
UPDATE holds h SET delivered = x.delivered
FROM (SELECT open.call_id, said.delivered
      FROM json_to_recordset(%s) AS said(call_id uuid, delivered json)
      JOIN holds open USING (call_id)
      FOR NO KEY UPDATE OF open SKIP LOCKED) x
WHERE h.call_id = x.call_id

-- leave --
-- The process ends in good order; kept while a hold of it is open, so that recovery finds it.
DELETE FROM processes p
WHERE p.id = %s AND NOT EXISTS (SELECT FROM holds h WHERE h.process_id = p.id)

-- others --
-- The other processes and the age of their last sign of life, in seconds.
SELECT id, host, boot_id, pid, extract(epoch FROM now() - heartbeat_at)::float8
FROM processes WHERE id <> %s

-- orphans --
-- Processes that left no row behind, only holds older than so many seconds. Younger ones may belong to
-- one that was taken for dead and is about to say otherwise.
SELECT DISTINCT h.process_id FROM holds h
WHERE h.created_at < now() - make_interval(secs => %s) AND NOT EXISTS (SELECT FROM processes p WHERE p.id = h.process_id)

-- holds_of --
-- The open holds of a process, oldest first.
SELECT call_id::text, account_id, key_id, call::text, delivered::text, extract(epoch FROM created_at)::float8
FROM holds WHERE process_id = %s ORDER BY created_at LIMIT 1000

-- old_holds_of --
-- Holds of a process that have been open for longer than so many seconds.
SELECT call_id::text, account_id, key_id, call::text, delivered::text, extract(epoch FROM created_at)::float8
FROM holds WHERE process_id = %s AND created_at < now() - make_interval(secs => %s)

-- count_holds_of --
-- How many holds of a process are open.
SELECT count(*) FROM holds WHERE process_id = %s

-- note --
-- Record a change, in the transaction that makes it.
INSERT INTO audit_trail (actor_kind, actor, origin, action, object, account_id, details)
VALUES (%(kind)s, %(actor)s, %(origin)s, %(action)s, %(object)s, %(account)s, %(details)s::json)

-- note_many --
-- Record several changes of one kind.
INSERT INTO audit_trail (actor_kind, actor, origin, action, object, account_id, details)
SELECT %(kind)s, %(actor)s, %(origin)s, %(action)s, x.object, x.account, x.details
FROM json_to_recordset(%(rows)s::json) AS x(object text, account text, details json)

-- trail --
-- The changes that pass the filters, the newest first.
SELECT id, at, actor_kind, actor, origin, action, object, account_id, details FROM audit_trail
WHERE (%(account)s::text IS NULL OR account_id = %(account)s) AND (%(object)s::text IS NULL OR object = %(object)s)
    AND (%(actor)s::text IS NULL OR actor = %(actor)s) AND (%(action)s::text IS NULL OR action = %(action)s)
    AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC LIMIT %(limit)s

-- claim_response --
-- Claim an idempotency key for its first request, or for the first one after it has expired; others wait for the end of
-- its transaction. A row that is not claimed is locked: nobody deletes it before its response is read.
INSERT INTO admin_responses AS kept (scope, key, digest) VALUES (%(scope)s, %(key)s, %(digest)s)
ON CONFLICT (scope, key) DO UPDATE SET digest = excluded.digest, created_at = excluded.created_at
    WHERE kept.created_at <= now() - %(days)s * interval '1 day'

-- keep_response --
-- Store the request's response, in the transaction that claimed the key.
UPDATE admin_responses SET response = %(response)s WHERE scope = %(scope)s AND key = %(key)s

-- kept_response --
-- The digest and response of the first request under a key.
SELECT digest, response FROM admin_responses WHERE scope = %(scope)s AND key = %(key)s

-- channel_orders --
-- The withdrawn channels, and by whom.
SELECT id, state, ordered_at, ordered_by FROM channel_orders

-- order_channel --
-- Withdraw a channel, or change how.
INSERT INTO channel_orders (id, state, ordered_by) VALUES (%(id)s, %(state)s, %(by)s)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, ordered_at = now(), ordered_by = excluded.ordered_by

-- open_channel --
-- Reopen a channel. The row's trigger notifies; without a row this statement does, so that the breaker closes too.
WITH gone AS (DELETE FROM channel_orders WHERE id = %(id)s RETURNING id)
SELECT pg_notify('gw_changes', 'channel:' || %(id)s) WHERE NOT EXISTS (SELECT FROM gone)

-- begin_proof --
-- Take the right to prove the ledger, until the session ends.
SELECT pg_try_advisory_lock(%(key)s)

-- proof_runs --
-- Whether a session has that right.
SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND classid = (%(key)s::bigint >> 32)::oid AND objid = (%(key)s::bigint & 4294967295)::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())

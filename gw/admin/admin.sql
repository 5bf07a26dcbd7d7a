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

-- insert_token --
-- Insert a token.
INSERT INTO admin_tokens (id, name, scope, digest, created_by) VALUES (%s, %s, %s, %s, %s)

-- token --
-- One token.
SELECT id, name, scope, created_at, created_by, revoked_at FROM admin_tokens WHERE id = %s

-- tokens --
-- All tokens, the oldest first.
SELECT id, name, scope, created_at, created_by, revoked_at FROM admin_tokens ORDER BY created_at, id

-- find_token --
-- The token of a digest, if it is not revoked.
SELECT id, name, scope, created_at, created_by, revoked_at FROM admin_tokens WHERE digest = %s AND revoked_at IS NULL

-- revoke_token --
-- Revoke a token; the first revocation's time stays.
UPDATE admin_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE id = %s

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

-- page_of_accounts --
-- Accounts, the newest first.
SELECT id, name, enabled, balance_nano_usd, held_nano_usd, rpm_limit, concurrency_limit, created_at, default_model,
       allowed_models
FROM accounts WHERE %(at)s::timestamptz IS NULL OR (created_at, id) < (%(at)s, %(id)s)
ORDER BY created_at DESC, id DESC LIMIT %(limit)s

-- page_of_keys --
-- Keys of an account, or of all, the newest first.
SELECT k.id, k.account_id, k.name, k.kind, k.agent_id, k.prefix, k.sealed IS NOT NULL,
       k.allowed_models, k.expires_at, k.enabled, k.revoked_at, k.account_logs,
       k.spend_cap_nano_usd, s.spent_nano_usd, k.last_used_at, k.created_at, k.user_name,
       k.requested_by, k.locked
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE (%(account)s::text IS NULL OR k.account_id = %(account)s)
    AND (%(at)s::timestamptz IS NULL OR (k.created_at, k.id) < (%(at)s, %(id)s))
ORDER BY k.created_at DESC, k.id DESC LIMIT %(limit)s

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

-- page_of_agents --
-- Agents of an account, or of all, the newest first.
SELECT g.id, g.account_id, g.name, g.user_name, g.system_prompt, g.model, g.temperature, g.web_search,
       g.image_generation, g.kbs, g.enabled, g.created_at, a.default_model
FROM agents g JOIN accounts a ON a.id = g.account_id
WHERE (%(account)s::text IS NULL OR g.account_id = %(account)s)
    AND (%(at)s::timestamptz IS NULL OR (g.created_at, g.id) < (%(at)s, %(id)s))
ORDER BY g.created_at DESC, g.id DESC LIMIT %(limit)s

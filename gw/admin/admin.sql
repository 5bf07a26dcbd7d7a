-- note --
-- One change, in the transaction that makes it.
INSERT INTO audit_trail (actor_kind, actor, origin, action, object, account_id, details)
VALUES (%(kind)s, %(actor)s, %(origin)s, %(action)s, %(object)s, %(account)s, %(details)s::json)

-- trail --
-- Changes, the newest first, as far as they pass.
SELECT id, at, actor_kind, actor, origin, action, object, account_id, details FROM audit_trail
WHERE (%(account)s::text IS NULL OR account_id = %(account)s) AND (%(object)s::text IS NULL OR object = %(object)s)
    AND (%(actor)s::text IS NULL OR actor = %(actor)s) AND (%(action)s::text IS NULL OR action = %(action)s)
    AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC LIMIT %(limit)s

-- insert_token --
-- A new token.
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
-- The end of a token; the first one's instant stays.
UPDATE admin_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE id = %s

-- claim_response --
-- The first request under an idempotency key takes it; others wait for the end of its transaction.
INSERT INTO admin_responses (scope, key, digest) VALUES (%(scope)s, %(key)s, %(digest)s) ON CONFLICT DO NOTHING

-- keep_response --
-- What the request got, in the transaction that claimed the key.
UPDATE admin_responses SET response = %(response)s WHERE scope = %(scope)s AND key = %(key)s

-- kept_response --
-- What the first request under a key was, and what it got.
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
       k.requested_by
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE (%(account)s::text IS NULL OR k.account_id = %(account)s)
    AND (%(at)s::timestamptz IS NULL OR (k.created_at, k.id) < (%(at)s, %(id)s))
ORDER BY k.created_at DESC, k.id DESC LIMIT %(limit)s

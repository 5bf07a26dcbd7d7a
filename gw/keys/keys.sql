-- find --
-- The keys of some hashes, each with its account and what that has available now.
SELECT * FROM find_keys(%(lookup)s::bytea[], %(legacy)s::bytea[])

-- insert --
-- A new key, found by its keyed hash or, when imported, by its plain one.
INSERT INTO keys (id, account_id, name, kind, agent_id, prefix, lookup_hash, legacy_hash, sealed,
                  allowed_models, expires_at, account_logs, spend_cap_nano_usd, user_name)
VALUES (%(id)s, %(account_id)s, %(name)s, %(kind)s, %(agent_id)s, %(prefix)s, %(lookup_hash)s,
        %(legacy_hash)s, %(sealed)s, %(allowed_models)s::text[], %(expires_at)s, %(account_logs)s,
        %(spend_cap_nano_usd)s, %(user_name)s)

-- show --
-- One key as its owner may see it.
SELECT k.id, k.account_id, k.name, k.kind, k.agent_id, k.prefix, k.sealed IS NOT NULL,
       k.allowed_models, k.expires_at, k.enabled, k.revoked_at, k.account_logs,
       k.spend_cap_nano_usd, s.spent_nano_usd, k.last_used_at, k.created_at, k.user_name
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE k.id = %s

-- list --
-- All keys of an account as their owner may see them, oldest first.
SELECT k.id, k.account_id, k.name, k.kind, k.agent_id, k.prefix, k.sealed IS NOT NULL,
       k.allowed_models, k.expires_at, k.enabled, k.revoked_at, k.account_logs,
       k.spend_cap_nano_usd, s.spent_nano_usd, k.last_used_at, k.created_at, k.user_name
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE k.account_id = %s ORDER BY k.created_at, k.id

-- change --
-- New settings for a key that is not revoked; what is not to be set stays.
UPDATE keys SET
    name = CASE WHEN %(set_name)s THEN %(name)s ELSE name END,
    kind = CASE WHEN %(set_kind)s THEN %(kind)s ELSE kind END,
    agent_id = CASE WHEN %(set_agent_id)s THEN %(agent_id)s ELSE agent_id END,
    allowed_models = CASE WHEN %(set_allowed_models)s THEN %(allowed_models)s::text[] ELSE allowed_models END,
    expires_at = CASE WHEN %(set_expires_at)s THEN %(expires_at)s::timestamptz ELSE expires_at END,
    enabled = CASE WHEN %(set_enabled)s THEN %(enabled)s ELSE enabled END,
    account_logs = CASE WHEN %(set_account_logs)s THEN %(account_logs)s ELSE account_logs END,
    spend_cap_nano_usd = CASE WHEN %(set_spend_cap_nano_usd)s THEN %(spend_cap_nano_usd)s::bigint
                              ELSE spend_cap_nano_usd END
WHERE id = %(id)s AND revoked_at IS NULL

-- revoke --
-- Revoke a key for good; the first revocation's time stays.
UPDATE keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = %s

-- sealed --
-- The encrypted text of a key, null when only its hash is known.
SELECT sealed FROM keys WHERE id = %s

-- oldest_sealed --
-- Any sealed key: opening it proves the secret.
SELECT id, sealed FROM keys WHERE sealed IS NOT NULL ORDER BY created_at LIMIT 1

-- write_last_use --
-- When keys were last used.
SELECT write_last_uses(%(ids)s::text[], %(seconds)s::float8[])

-- note_view --
-- Somebody is about to be shown the text of a key.
INSERT INTO key_views (key_id, os_user, host) VALUES (%s, %s, %s)

-- views --
-- Who has been shown the text of a key, oldest first.
SELECT viewed_at, os_user, host FROM key_views WHERE key_id = %s ORDER BY id

-- find --
-- The keys of some hashes, each with its account and its available balance.
SELECT * FROM find_priced_keys(%(lookup)s::bytea[], %(legacy)s::bytea[])

-- insert --
-- Insert a key, found by its keyed hash or, if imported, by its plain one, unless its account has as many as it may.
INSERT INTO keys (id, account_id, name, kind, agent_id, prefix, lookup_hash, legacy_hash, sealed,
                  allowed_models, expires_at, account_logs, spend_cap_nano_usd, user_name, requested_by)
SELECT %(id)s, %(account_id)s, %(name)s, %(kind)s, %(agent_id)s, %(prefix)s, %(lookup_hash)s::bytea,
       %(legacy_hash)s::bytea, %(sealed)s::bytea, %(allowed_models)s::text[], %(expires_at)s::timestamptz,
       %(account_logs)s, %(spend_cap_nano_usd)s::bigint, %(user_name)s, %(requested_by)s
WHERE (SELECT count(*) FROM (SELECT FROM keys WHERE account_id = %(account_id)s LIMIT %(most)s) AS present) < %(most)s

-- rooms --
-- Of some accounts: whether there is one, and its number of keys, as far as it matters.
SELECT wanted.id, a.id IS NOT NULL,
       (SELECT count(*) FROM (SELECT FROM keys k WHERE k.account_id = wanted.id LIMIT %(most)s) AS present)
FROM unnest(%(accounts)s::text[]) AS wanted(id) LEFT JOIN accounts a ON a.id = wanted.id

-- insert_many --
-- Insert keys, which are found by their keyed hashes.
INSERT INTO keys (id, account_id, name, kind, agent_id, prefix, lookup_hash, sealed, allowed_models, expires_at,
                  account_logs, spend_cap_nano_usd, user_name, requested_by)
SELECT x.id, x.account_id, x.name, x.kind, x.agent_id, x.prefix, decode(x.lookup_hash, 'hex'), decode(x.sealed, 'hex'),
       x.allowed_models, x.expires_at, x.account_logs, x.spend_cap_nano_usd, x.user_name, x.requested_by
FROM json_to_recordset(%(rows)s::json) AS x(
    id text, account_id text, name text, kind text, agent_id text, prefix text, lookup_hash text, sealed text,
    allowed_models text[], expires_at timestamptz, account_logs boolean, spend_cap_nano_usd bigint, user_name text,
    requested_by text)

-- show_many --
-- Some keys as their owners may see them, with their encrypted texts.
SELECT k.sealed, k.id, k.account_id, k.name, k.kind, k.agent_id, k.prefix, k.sealed IS NOT NULL,
       k.allowed_models, k.expires_at, k.enabled, k.revoked_at, k.account_logs,
       k.spend_cap_nano_usd, s.spent_nano_usd, k.last_used_at, k.created_at, k.user_name,
       k.requested_by, k.locked
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE k.id = ANY(%s)

-- show --
-- One key as its owner may see it.
SELECT k.id, k.account_id, k.name, k.kind, k.agent_id, k.prefix, k.sealed IS NOT NULL,
       k.allowed_models, k.expires_at, k.enabled, k.revoked_at, k.account_logs,
       k.spend_cap_nano_usd, s.spent_nano_usd, k.last_used_at, k.created_at, k.user_name,
       k.requested_by, k.locked
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE k.id = %s

-- oldest_first --
-- Keys of an account as their owner may see them, the oldest first.
SELECT k.id, k.account_id, k.name, k.kind, k.agent_id, k.prefix, k.sealed IS NOT NULL,
       k.allowed_models, k.expires_at, k.enabled, k.revoked_at, k.account_logs,
       k.spend_cap_nano_usd, s.spent_nano_usd, k.last_used_at, k.created_at, k.user_name,
       k.requested_by, k.locked
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE k.account_id = %(account)s
    AND (%(at)s::timestamptz IS NULL OR (k.created_at, k.id) > (%(at)s, %(id)s))
ORDER BY k.created_at, k.id LIMIT %(limit)s

-- newest_first --
-- The same, the newest first.
SELECT k.id, k.account_id, k.name, k.kind, k.agent_id, k.prefix, k.sealed IS NOT NULL,
       k.allowed_models, k.expires_at, k.enabled, k.revoked_at, k.account_logs,
       k.spend_cap_nano_usd, s.spent_nano_usd, k.last_used_at, k.created_at, k.user_name,
       k.requested_by, k.locked
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE k.account_id = %(account)s
    AND (%(at)s::timestamptz IS NULL OR (k.created_at, k.id) < (%(at)s, %(id)s))
ORDER BY k.created_at DESC, k.id DESC LIMIT %(limit)s

-- change --
-- Change settings of a key that is not revoked, as far as given.
UPDATE keys SET
    name = CASE WHEN %(set_name)s THEN %(name)s ELSE name END,
    kind = CASE WHEN %(set_kind)s THEN %(kind)s ELSE kind END,
    allowed_models = CASE WHEN %(set_allowed_models)s THEN %(allowed_models)s::text[] ELSE allowed_models END,
    expires_at = CASE WHEN %(set_expires_at)s THEN %(expires_at)s::timestamptz ELSE expires_at END,
    enabled = CASE WHEN %(set_enabled)s THEN %(enabled)s ELSE enabled END,
    locked = CASE WHEN %(set_locked)s THEN %(locked)s ELSE locked END,
    account_logs = CASE WHEN %(set_account_logs)s THEN %(account_logs)s ELSE account_logs END,
    spend_cap_nano_usd = CASE WHEN %(set_spend_cap_nano_usd)s THEN %(spend_cap_nano_usd)s::bigint
                              ELSE spend_cap_nano_usd END
WHERE id = %(id)s AND revoked_at IS NULL

-- is_locked --
-- Whether an operator has disabled a key; the row is kept from changes until the transaction ends.
SELECT locked FROM keys WHERE id = %s FOR NO KEY UPDATE

-- revoke --
-- Revoke a key for good; the first revocation's time stays.
UPDATE keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = %s

-- sealed --
-- The encrypted text of a key; null if only its hash is known.
SELECT sealed FROM keys WHERE id = %s

-- sealed_after --
-- Keys with a stored text, by id, after one.
SELECT id, sealed FROM keys WHERE sealed IS NOT NULL AND id > %s ORDER BY id LIMIT %s

-- reseal --
-- Encrypt keys with another secret, unless they have changed.
UPDATE keys k SET lookup_hash = x.lookup_hash, sealed = x.sealed
FROM unnest(%(ids)s::text[], %(before)s::bytea[], %(lookup)s::bytea[], %(sealed)s::bytea[])
    AS x(id, before, lookup_hash, sealed)
WHERE k.id = x.id AND k.sealed = x.before

-- oldest_sealed --
-- The oldest stored key: decrypting it proves the secret.
SELECT id, sealed FROM keys WHERE sealed IS NOT NULL ORDER BY created_at LIMIT 1

-- write_last_use --
-- Store when keys were last used.
SELECT write_last_uses(%(ids)s::text[], %(seconds)s::float8[])

-- note_view --
-- Record that the text of a key will be shown.
INSERT INTO key_views (key_id, os_user, host) VALUES (%s, %s, %s)

-- note_views --
-- The same of several keys.
INSERT INTO key_views (key_id, os_user, host) SELECT id, %(os_user)s, %(host)s FROM unnest(%(ids)s::text[]) AS shown(id)

-- views --
-- To whom the text of a key was shown, the oldest first.
SELECT viewed_at, os_user, host FROM key_views WHERE key_id = %s ORDER BY id

-- ask --
-- Insert a request for a key of an agent.
INSERT INTO key_requests (id, account_id, agent_id, name, requested_by, spend_cap_nano_usd)
VALUES (%s, %s, %s, %s, %s, %s)

-- request --
-- One request for a key.
SELECT id, account_id, agent_id, name, requested_by, spend_cap_nano_usd, status, created_at, decided_at, decided_by
FROM key_requests WHERE id = %s

-- requests --
-- The requests of an account, oldest first.
SELECT id, account_id, agent_id, name, requested_by, spend_cap_nano_usd, status, created_at, decided_at, decided_by
FROM key_requests WHERE account_id = %s ORDER BY created_at, id

-- pending_requests --
-- The pending requests of all accounts, the oldest first, with the names of account and agent.
SELECT r.id, r.account_id, a.name, r.agent_id, g.name, r.name, r.requested_by, r.spend_cap_nano_usd, r.created_at
FROM key_requests r JOIN accounts a ON a.id = r.account_id JOIN agents g ON g.id = r.agent_id
WHERE r.status = 'pending' AND (%(at)s::timestamptz IS NULL OR (r.created_at, r.id) > (%(at)s, %(id)s))
ORDER BY r.created_at, r.id LIMIT %(limit)s

-- decide --
-- Approve or reject a request, once.
UPDATE key_requests SET status = %s, decided_at = now(), decided_by = %s, decided_on = %s
WHERE id = %s AND status = 'pending'

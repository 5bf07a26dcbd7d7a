-- find --
-- The keys of some hashes, each with its account and its available balance.
SELECT * FROM find_keys(%(lookup)s::bytea[], %(legacy)s::bytea[])

-- insert --
-- Insert a key, found by its keyed hash or, if imported, by its plain one, unless its account has as many as it may.
INSERT INTO keys (id, prefix, lookup_hash, legacy_hash, sealed, {{new_columns}})
SELECT %(id)s, %(prefix)s, %(lookup_hash)s::bytea, %(legacy_hash)s::bytea, %(sealed)s::bytea, {{new_values}}
WHERE (SELECT count(*) FROM (SELECT FROM keys WHERE account_id = %(account_id)s LIMIT %(most)s) AS present) < %(most)s

-- rooms --
-- Of some accounts: whether there is one, and its number of keys, as far as it matters.
SELECT wanted.id, a.id IS NOT NULL,
       (SELECT count(*) FROM (SELECT FROM keys k WHERE k.account_id = wanted.id LIMIT %(most)s) AS present)
FROM unnest(%(accounts)s::text[]) AS wanted(id) LEFT JOIN accounts a ON a.id = wanted.id

-- insert_many --
-- Insert keys, which are found by their keyed hashes.
INSERT INTO keys (id, prefix, lookup_hash, sealed, {{new_columns}})
SELECT x.id, x.prefix, decode(x.lookup_hash, 'hex'), decode(x.sealed, 'hex'), {{new_fields}}
FROM json_to_recordset(%(rows)s::json) AS x(id text, prefix text, lookup_hash text, sealed text, {{new_types}})

-- show_many --
-- Some keys as their owners may see them, with their encrypted texts.
SELECT k.sealed, {{columns}}
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE k.id = ANY(%s)

-- show --
-- One key as its owner may see it.
SELECT {{columns}}
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE k.id = %s

-- oldest_first --
-- Keys of an account as their owner may see them, the oldest first.
SELECT {{columns}}
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE k.account_id = %(account)s
    AND (%(at)s::timestamptz IS NULL OR (k.created_at, k.id) > (%(at)s, %(id)s))
ORDER BY k.created_at, k.id LIMIT %(limit)s

-- newest_first --
-- Keys of an account, or of all, the newest first.
SELECT {{columns}}
FROM keys k JOIN key_spend s ON s.key_id = k.id
WHERE (%(account)s::text IS NULL OR k.account_id = %(account)s)
    AND (%(at)s::timestamptz IS NULL OR (k.created_at, k.id) < (%(at)s, %(id)s))
ORDER BY k.created_at DESC, k.id DESC LIMIT %(limit)s

-- change --
-- Change settings of a key that is not revoked, as far as given.
UPDATE keys SET {{settings}}
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

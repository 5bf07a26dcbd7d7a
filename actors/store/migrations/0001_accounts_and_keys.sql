-- Accounts, their keys and what these spend, and the push that tells every running gateway of a change.

-- What every call writes has no CHECK: PostgreSQL reads each one anew for each statement, which was a tenth of a small
-- batch. Domains guard the same values, of columns and of parameters, and are read once in a session; what concerns
-- several columns of a row is proved by `gw ledger verify` (entry_is_sound, row_is_sound).
CREATE DOMAIN non_negative AS bigint CONSTRAINT not_negative CHECK (VALUE >= 0);
CREATE DOMAIN positive AS integer CONSTRAINT positive CHECK (VALUE > 0);
CREATE DOMAIN some_text AS text CONSTRAINT not_empty CHECK (VALUE <> '');
CREATE DOMAIN row_status AS text
    CONSTRAINT known_status CHECK (VALUE IN ('success', 'error', 'interrupted', 'rejected'));

CREATE TABLE accounts (
    id                text PRIMARY KEY,
    name              some_text NOT NULL,
    enabled           boolean NOT NULL DEFAULT true,
    balance_nano_usd  bigint NOT NULL DEFAULT 0,
    held_nano_usd     non_negative NOT NULL DEFAULT 0,
    rpm_limit         positive,
    concurrency_limit positive,
    created_at        timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);  -- the two amounts change with every call: leave room for in-page updates

CREATE TABLE keys (
    id                 text PRIMARY KEY,
    account_id         text NOT NULL REFERENCES accounts (id),
    name               text NOT NULL CHECK (name <> ''),
    kind               text NOT NULL CHECK (kind IN ('console', 'employee', 'compute', 'agent')),
    agent_id           text,
    prefix             text NOT NULL,
    lookup_hash        bytea CONSTRAINT keys_lookup_hash_once UNIQUE,
    legacy_hash        bytea CONSTRAINT keys_legacy_hash_once UNIQUE,
    sealed             bytea,
    allowed_models     text[],
    expires_at         timestamptz,
    enabled            boolean NOT NULL DEFAULT true,
    revoked_at         timestamptz,
    account_logs       boolean NOT NULL DEFAULT false,
    spend_cap_nano_usd bigint CHECK (spend_cap_nano_usd >= 0),
    last_used_at       timestamptz,
    created_at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT keys_have_a_hash CHECK (lookup_hash IS NOT NULL OR legacy_hash IS NOT NULL)
) WITH (fillfactor = 70);  -- last uses are written all the time

CREATE INDEX keys_of_account ON keys (account_id);

-- What a key has spent and has on hold. Apart from `keys`, because it changes with every call.
CREATE TABLE key_spend (
    key_id         text PRIMARY KEY REFERENCES keys (id),
    account_id     text NOT NULL,
    spent_nano_usd bigint NOT NULL DEFAULT 0,
    held_nano_usd  non_negative NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE FUNCTION key_spend_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO key_spend (key_id, account_id) VALUES (NEW.id, NEW.account_id);
    RETURN NULL;
END $$;

CREATE TRIGGER keys_open_spend AFTER INSERT ON keys
    FOR EACH ROW EXECUTE FUNCTION key_spend_open();

CREATE FUNCTION push_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gw_changes', TG_ARGV[0] || ':' || NEW.id);
    RETURN NULL;
END $$;

-- Balance, held and last use are left out: they change all the time and nobody caches them by push.
CREATE TRIGGER accounts_push AFTER INSERT OR UPDATE OF name, enabled, rpm_limit, concurrency_limit ON accounts
    FOR EACH ROW EXECUTE FUNCTION push_change('account');

-- Every column that is read with a key is one whose change is pushed, and so is the end of the row.
CREATE TRIGGER keys_push AFTER INSERT OR UPDATE OF account_id, name, kind, agent_id, prefix, lookup_hash, legacy_hash,
        allowed_models, expires_at, enabled, revoked_at, account_logs, spend_cap_nano_usd ON keys
    FOR EACH ROW EXECUTE FUNCTION push_change('key');

CREATE FUNCTION push_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gw_changes', TG_ARGV[0] || ':' || OLD.id);
    RETURN NULL;
END $$;

CREATE TRIGGER keys_push_removal AFTER DELETE ON keys
    FOR EACH ROW EXECUTE FUNCTION push_removal('key');

-- Finds the keys of some hashes (keyed, and plain for imported ones), each with its account and what that has
-- available now. A function, because its plan is made once in a session: to plan it took longer than to run it. Its
-- tables are looked up by key, however many are asked for, and never read as a whole.
CREATE FUNCTION find_keys(p_lookup bytea[], p_legacy bytea[])
RETURNS TABLE (lookup_hash bytea, legacy_hash bytea, available_nano_usd bigint, id text, account_id text, name text,
    prefix text, kind text, agent_id text, allowed_models text[], expires_at timestamptz, account_logs boolean,
    spend_cap_nano_usd bigint, rpm_limit integer, concurrency_limit integer, is_revoked boolean, is_enabled boolean,
    is_account_enabled boolean)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT k.lookup_hash, k.legacy_hash, a.balance_nano_usd - a.held_nano_usd,
        k.id, k.account_id, k.name, k.prefix, k.kind, k.agent_id, k.allowed_models, k.expires_at,
        k.account_logs, k.spend_cap_nano_usd, a.rpm_limit::integer, a.concurrency_limit::integer,
        k.revoked_at IS NOT NULL, k.enabled, a.enabled
    FROM keys k JOIN accounts a ON a.id = k.account_id
    WHERE k.lookup_hash = ANY (p_lookup) OR k.legacy_hash = ANY (p_legacy);
END $$;

-- Notes when keys were last used; an earlier time changes nothing. Rows are locked in the order of their ids, so that
-- two processes do not wait on each other. A function, because its plan is made once in a session and looks keys up one
-- by one: a plan of its own read the whole table from some hundred keys on, once a second.
CREATE FUNCTION write_last_uses(p_ids text[], p_seconds double precision[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    WITH used AS MATERIALIZED (
        SELECT k.id, t.at FROM keys k
        JOIN unnest(p_ids, p_seconds) AS x(id, seconds) USING (id)
        CROSS JOIN LATERAL (SELECT to_timestamp(x.seconds) AS at) t
        WHERE k.last_used_at IS NULL OR k.last_used_at < t.at
        ORDER BY k.id FOR NO KEY UPDATE OF k
    )
    UPDATE keys SET last_used_at = used.at FROM used WHERE keys.id = used.id;
END $$;

-- Who has looked at the text of a stored key, and when: one row for each view, never changed.
CREATE TABLE key_views (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key_id    text NOT NULL REFERENCES keys (id),
    viewed_at timestamptz NOT NULL DEFAULT now(),
    os_user   text NOT NULL,
    host      text NOT NULL
);

CREATE INDEX key_views_of_key ON key_views (key_id, id);

CREATE FUNCTION key_views_are_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'views of keys are append-only';
END $$;

CREATE TRIGGER key_views_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON key_views
    FOR EACH STATEMENT EXECUTE FUNCTION key_views_are_append_only();

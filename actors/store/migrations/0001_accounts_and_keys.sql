-- Accounts, their keys, and the push that tells every running gateway of a change.

CREATE TABLE accounts (
    id                text PRIMARY KEY,
    name              text NOT NULL CHECK (name <> ''),
    enabled           boolean NOT NULL DEFAULT true,
    balance_nano_usd  bigint NOT NULL DEFAULT 0,
    held_nano_usd     bigint NOT NULL DEFAULT 0 CONSTRAINT accounts_held_not_negative CHECK (held_nano_usd >= 0),
    rpm_limit         integer CHECK (rpm_limit > 0),
    concurrency_limit integer CHECK (concurrency_limit > 0),
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
);

CREATE INDEX keys_of_account ON keys (account_id);

-- What a key has spent and has on hold. Apart from `keys`, because it changes with every call.
CREATE TABLE key_spend (
    key_id         text PRIMARY KEY REFERENCES keys (id),
    account_id     text NOT NULL,
    spent_nano_usd bigint NOT NULL DEFAULT 0,
    held_nano_usd  bigint NOT NULL DEFAULT 0 CONSTRAINT key_spend_held_not_negative CHECK (held_nano_usd >= 0)
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

CREATE TRIGGER keys_push AFTER INSERT OR UPDATE OF name, kind, agent_id, lookup_hash, legacy_hash, allowed_models,
        expires_at, enabled, revoked_at, account_logs, spend_cap_nano_usd ON keys
    FOR EACH ROW EXECUTE FUNCTION push_change('key');

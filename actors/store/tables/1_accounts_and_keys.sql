-- Accounts, their keys and what these spend, and the push that notifies every running gateway of a change.

-- Tables that every call writes have no CHECK: PostgreSQL reads each one anew for each statement, which was a tenth of a
-- small batch. Domains guard the same values, of columns and of parameters, and are read once in a session; what concerns
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
    created_at        timestamptz NOT NULL DEFAULT now(),
    default_model     text,
    allowed_models    text[]
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
    user_name          some_text NOT NULL DEFAULT 'owner',
    requested_by       text,           -- who asked for a key that others approved
    CONSTRAINT keys_have_a_hash CHECK (lookup_hash IS NOT NULL OR legacy_hash IS NOT NULL),
    -- Such a key has a spend cap as long as it lives.
    CONSTRAINT keys_requested_have_a_cap CHECK (requested_by IS NULL OR spend_cap_nano_usd IS NOT NULL)
) WITH (fillfactor = 70);  -- last uses are written all the time

CREATE INDEX keys_of_account ON keys (account_id);
CREATE INDEX keys_of_agent ON keys (agent_id) WHERE agent_id IS NOT NULL;

-- What a key has spent and has on hold. Apart from `keys`, because it changes with every call.
CREATE TABLE key_spend (
    key_id         text PRIMARY KEY REFERENCES keys (id),
    account_id     text NOT NULL,
    spent_nano_usd bigint NOT NULL DEFAULT 0,
    held_nano_usd  non_negative NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TRIGGER keys_open_spend AFTER INSERT ON keys
    FOR EACH ROW EXECUTE FUNCTION key_spend_open();

-- Balance, held and last use are left out: they change all the time and no cache depends on their push.
CREATE TRIGGER accounts_push AFTER INSERT OR UPDATE OF name, enabled, rpm_limit, concurrency_limit, default_model,
        allowed_models ON accounts
    FOR EACH ROW EXECUTE FUNCTION push_change('account');

-- Every column that is read with a key is one whose change is pushed, and so is the end of the row.
CREATE TRIGGER keys_push AFTER INSERT OR UPDATE OF account_id, name, kind, agent_id, prefix, lookup_hash, legacy_hash,
        allowed_models, expires_at, enabled, revoked_at, account_logs, spend_cap_nano_usd ON keys
    FOR EACH ROW EXECUTE FUNCTION push_change('key');

CREATE TRIGGER keys_push_removal AFTER DELETE ON keys
    FOR EACH ROW EXECUTE FUNCTION push_removal('key');

-- Who has looked at the text of a stored key, and when: one row for each view, never changed.
CREATE TABLE key_views (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key_id    text NOT NULL REFERENCES keys (id),
    viewed_at timestamptz NOT NULL DEFAULT now(),
    os_user   text NOT NULL,
    host      text NOT NULL
);

CREATE INDEX key_views_of_key ON key_views (key_id, id);

CREATE TRIGGER key_views_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON key_views
    FOR EACH STATEMENT EXECUTE FUNCTION key_views_are_append_only();

-- Accounts, their keys and what these spend, and the push that notifies every running gateway of a change.

-- Tables that every call writes have no CHECK: PostgreSQL reads each one anew for each statement, which was a tenth of a
-- small batch. Domains guard the same values, of columns and of parameters, and are read once in a session; what concerns
-- several columns of a row is proved by `gw ledger verify` (entry_is_sound, row_is_sound).
CREATE DOMAIN non_negative AS bigint CONSTRAINT not_negative CHECK (VALUE >= 0);
CREATE DOMAIN positive AS integer CONSTRAINT positive CHECK (VALUE > 0);
CREATE DOMAIN some_text AS text CONSTRAINT not_empty CHECK (VALUE <> '');
CREATE DOMAIN row_status AS text
    CONSTRAINT known_status CHECK (VALUE IN ('success', 'error', 'interrupted', 'rejected'));

-- What the calls of an account, or of a key, demand for their data: every channel that serves them promises it.
-- `channels/data_promise.py` reads it.
CREATE DOMAIN data_demand AS text CONSTRAINT is_demand CHECK (
    VALUE ~ '^(region=[a-z][a-z0-9-]{0,31}(; retention=(0|[1-9][0-9]{0,4}))?|retention=(0|[1-9][0-9]{0,4}))$'
    AND coalesce(substring(VALUE FROM 'retention=([0-9]+)')::integer, 0) <= 36500);

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
    allowed_models    text[],
    leased_nano_usd   non_negative NOT NULL DEFAULT 0,    -- the sum of its leases
    unleased_until    timestamptz,                        -- someone was refused for a lease: none before then
    budgets_version   bigint NOT NULL DEFAULT 0,          -- of its live nodes; a hold is granted only by that of its match
    run_ceilings      non_negative NOT NULL DEFAULT 0,    -- sums of runs with a ceiling: processes look for none while 0
    balance_alerts_nano_usd bigint[] NOT NULL DEFAULT '{}',  -- each once, the greatest first
    data_demand       data_demand
) WITH (fillfactor = 50);  -- the amounts change with every call: leave room for in-page updates

CREATE INDEX accounts_by_age ON accounts (created_at, id);

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
    -- An operator has disabled it: its account's owner cannot enable it.
    locked             boolean NOT NULL DEFAULT false,
    data_demand        data_demand,
    CONSTRAINT keys_have_a_hash CHECK (lookup_hash IS NOT NULL OR legacy_hash IS NOT NULL),
    -- Such a key has a spend cap as long as it lives.
    CONSTRAINT keys_requested_have_a_cap CHECK (requested_by IS NULL OR spend_cap_nano_usd IS NOT NULL)
) WITH (fillfactor = 70);  -- last uses are written all the time

CREATE INDEX keys_of_account ON keys (account_id);
CREATE INDEX keys_by_age ON keys (created_at, id);
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
        allowed_models, budgets_version, data_demand ON accounts
    FOR EACH ROW EXECUTE FUNCTION push_change('account');

-- Whatever moves the money: leases that a balance does not cover any more are called back in the same transaction.
CREATE TRIGGER accounts_call_leases_back AFTER UPDATE OF balance_nano_usd, held_nano_usd ON accounts FOR EACH ROW
    WHEN (NEW.leased_nano_usd > 0 AND NEW.balance_nano_usd - NEW.held_nano_usd < NEW.leased_nano_usd)
    EXECUTE FUNCTION leases_uncovered();

-- An account without alerts pays for this with one look at them.
CREATE TRIGGER accounts_low AFTER UPDATE OF balance_nano_usd ON accounts FOR EACH ROW
    WHEN (NEW.balance_alerts_nano_usd <> '{}' AND NEW.balance_nano_usd < OLD.balance_nano_usd)
    EXECUTE FUNCTION event_of_balance();

CREATE TRIGGER accounts_switched AFTER UPDATE OF enabled ON accounts FOR EACH ROW
    WHEN (NEW.enabled <> OLD.enabled) EXECUTE FUNCTION event_of_switch();

-- Every column that is read with a key is one whose change is pushed, and so is the end of the row.
CREATE TRIGGER keys_push AFTER INSERT OR UPDATE OF account_id, name, kind, agent_id, prefix, lookup_hash, legacy_hash,
        allowed_models, expires_at, enabled, revoked_at, account_logs, spend_cap_nano_usd, data_demand ON keys
    FOR EACH ROW EXECUTE FUNCTION push_change('key');

CREATE TRIGGER keys_push_removal AFTER DELETE ON keys
    FOR EACH ROW EXECUTE FUNCTION push_removal('key');

CREATE TRIGGER keys_revoked AFTER UPDATE OF revoked_at ON keys FOR EACH ROW
    WHEN (NEW.revoked_at IS NOT NULL AND OLD.revoked_at IS NULL) EXECUTE FUNCTION event_of_revocation();

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

-- What models cost an account, where that is not what they cost everyone: a factor, or prices of its own as the
-- configuration states them. `models` are patterns of model ids. Read with the account's keys, so that every column's
-- change is pushed; a row is never deleted, because rows of calls name it.
CREATE TABLE account_prices (
    id          text PRIMARY KEY,
    account_id  text NOT NULL REFERENCES accounts (id),
    models      text[] NOT NULL CHECK (cardinality(models) > 0),
    factor      numeric CHECK (factor > 0),
    prices      json,
    valid_from  timestamptz NOT NULL,
    valid_until timestamptz CHECK (valid_until > valid_from),
    created_at  timestamptz NOT NULL DEFAULT now(),
    removed_at  timestamptz,
    CHECK ((factor IS NULL) <> (prices IS NULL))
);

CREATE INDEX account_prices_of_account ON account_prices (account_id) WHERE removed_at IS NULL;

CREATE TRIGGER account_prices_push AFTER INSERT OR UPDATE ON account_prices
    FOR EACH ROW EXECUTE FUNCTION push_account();

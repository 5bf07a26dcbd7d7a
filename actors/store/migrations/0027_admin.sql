-- What operators do: who may (tokens of the admin API), what they did, and what of it holds for every process.

-- A token is known by the SHA-256 of its text, which is 256 random bits.
CREATE TABLE admin_tokens (
    id         text PRIMARY KEY,
    name       some_text NOT NULL,
    scope      text NOT NULL CHECK (scope IN ('read', 'write')),
    digest     bytea NOT NULL CONSTRAINT admin_tokens_digest_once UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text NOT NULL,
    revoked_at timestamptz
);

-- One row for each change, written in the transaction of the change. `origin`: the address of the client, or the host on
-- which the command ran. `object`: the id of what was changed.
CREATE TABLE audit_trail (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT now(),
    actor_kind text NOT NULL CHECK (actor_kind IN ('command', 'token', 'operator', 'owner')),
    actor      text NOT NULL,
    origin     text NOT NULL,
    action     text NOT NULL,
    object     text NOT NULL,
    account_id text,
    details    json NOT NULL
);

CREATE INDEX audit_trail_of_account ON audit_trail (account_id, id) WHERE account_id IS NOT NULL;
CREATE INDEX audit_trail_of_object ON audit_trail (object, id);

CREATE TRIGGER audit_trail_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_trail
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();

-- The response to a request that moved money, under its idempotency key: the same request gets it again. The row and the
-- ledger's entry are one transaction.
CREATE TABLE admin_responses (
    scope      text NOT NULL,          -- what kind of request, of which account
    key        text NOT NULL,
    digest     bytea NOT NULL,         -- of the body
    response   text,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, key)
);

-- Channels that operators have taken out of service, for every process, until they are opened again.
CREATE TABLE channel_orders (
    id         text PRIMARY KEY,
    state      text NOT NULL CHECK (state IN ('draining', 'closed')),
    ordered_at timestamptz NOT NULL DEFAULT now(),
    ordered_by text NOT NULL
);

CREATE TRIGGER channel_orders_push AFTER INSERT OR UPDATE ON channel_orders
    FOR EACH ROW EXECUTE FUNCTION push_change('channel');
CREATE TRIGGER channel_orders_push_removal AFTER DELETE ON channel_orders
    FOR EACH ROW EXECUTE FUNCTION push_removal('channel');

-- What the last proof of the ledger found, beside how many rows were off.
ALTER TABLE ledger_proofs ADD COLUMN report json;

-- Lists of all accounts, keys and agents, page by page. Both tables are locked together, before a writer has one of them:
-- writers wait 0.3 s of every 2.3 meanwhile, and while the rows are read once.
DO $$
BEGIN
    FOR attempt IN 1..600 LOOP
        BEGIN
            SET LOCAL lock_timeout = '300ms';
            LOCK TABLE accounts, keys IN SHARE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 600 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(2);
        END;
    END LOOP;
    SET LOCAL lock_timeout = 0;
END $$;
CREATE INDEX accounts_by_age ON accounts (created_at, id);
CREATE INDEX keys_by_age ON keys (created_at, id);

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

CREATE TRIGGER audit_trail_events AFTER INSERT ON audit_trail FOR EACH ROW
    WHEN (NEW.action IN ('account.create', 'account.set', 'account.import', 'key.create', 'key.import', 'key.approve',
                         'key.set'))
    EXECUTE FUNCTION event_of_audit();

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

-- Responses kept for idempotency keys of the admin API are deleted when they are seven days old, the oldest first.
CREATE INDEX admin_responses_by_age ON admin_responses (created_at);

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

-- Agents, and requests for keys of theirs; an agent is read with its key's row.

-- An agent speaks for its account; `kbs` are bases as `user_name` may name them.
CREATE TABLE agents (
    id               text PRIMARY KEY,
    account_id       text NOT NULL CONSTRAINT agents_of_account REFERENCES accounts (id),
    name             some_text NOT NULL,
    user_name        some_text NOT NULL,
    system_prompt    some_text NOT NULL,
    model            text,
    temperature      double precision,
    web_search       boolean NOT NULL,
    image_generation boolean NOT NULL,
    kbs              text[] NOT NULL,
    enabled          boolean NOT NULL DEFAULT true,
    created_at       timestamptz NOT NULL DEFAULT now(),
    -- An operator has disabled it: its account's owner cannot enable it.
    locked           boolean NOT NULL DEFAULT false
);

CREATE INDEX agents_by_account ON agents (account_id);

CREATE TRIGGER agents_push AFTER INSERT OR UPDATE ON agents
    FOR EACH ROW EXECUTE FUNCTION push_change('agent');

-- The id is that of the key, once there is one. Who decided is known as in `key_views`.
CREATE TABLE key_requests (
    id                 text PRIMARY KEY,
    account_id         text NOT NULL REFERENCES accounts (id),
    agent_id           text NOT NULL REFERENCES agents (id),
    name               some_text NOT NULL,
    requested_by       some_text NOT NULL,
    spend_cap_nano_usd non_negative NOT NULL,
    status             text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'rejected')),
    created_at         timestamptz NOT NULL DEFAULT now(),
    decided_at         timestamptz,
    decided_by         text,
    decided_on         text
);

CREATE INDEX key_requests_of_account ON key_requests (account_id);

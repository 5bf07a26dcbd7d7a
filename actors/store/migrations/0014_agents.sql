-- Agents, their account's default and allowed models, requests for keys of theirs; all of it is read with the key's row.

ALTER TABLE accounts ADD COLUMN default_model text, ADD COLUMN allowed_models text[];

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
    created_at       timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX agents_by_account ON agents (account_id);

CREATE TRIGGER agents_push AFTER INSERT OR UPDATE ON agents
    FOR EACH ROW EXECUTE FUNCTION push_change('agent');

DROP TRIGGER accounts_push ON accounts;
CREATE TRIGGER accounts_push AFTER INSERT OR UPDATE OF name, enabled, rpm_limit, concurrency_limit, default_model,
        allowed_models ON accounts
    FOR EACH ROW EXECUTE FUNCTION push_change('account');

-- Who asked for a key that others approved; such a key has a spend cap as long as it lives.
ALTER TABLE keys ADD COLUMN requested_by text,
    ADD CONSTRAINT keys_requested_have_a_cap CHECK (requested_by IS NULL OR spend_cap_nano_usd IS NOT NULL);

CREATE INDEX keys_of_agent ON keys (agent_id) WHERE agent_id IS NOT NULL;

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

DROP FUNCTION find_keys(bytea[], bytea[]);

-- `agent` is null for a key of another kind, and for one whose agent is not its account's.
CREATE FUNCTION find_keys(p_lookup bytea[], p_legacy bytea[])
RETURNS TABLE (lookup_hash bytea, legacy_hash bytea, available_nano_usd bigint, id text, account_id text, name text,
    prefix text, kind text, agent_id text, allowed_models text[], expires_at timestamptz, account_logs boolean,
    spend_cap_nano_usd bigint, rpm_limit integer, concurrency_limit integer, user_name text, agent json,
    is_revoked boolean, is_enabled boolean, is_account_enabled boolean)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT k.lookup_hash, k.legacy_hash, a.balance_nano_usd - a.held_nano_usd,
        k.id, k.account_id, k.name, k.prefix, k.kind, k.agent_id, k.allowed_models, k.expires_at,
        k.account_logs, k.spend_cap_nano_usd, a.rpm_limit::integer, a.concurrency_limit::integer,
        k.user_name::text,
        CASE WHEN g.id IS NOT NULL AND k.kind = 'agent' THEN json_build_object(
            'id', g.id, 'user', g.user_name, 'system_prompt', g.system_prompt, 'model', g.model,
            'temperature', g.temperature, 'web_search', g.web_search, 'image_generation', g.image_generation,
            'kbs', g.kbs, 'enabled', g.enabled, 'default_model', a.default_model, 'allowed_models', a.allowed_models)
        END,
        k.revoked_at IS NOT NULL, k.enabled, a.enabled
    FROM keys k JOIN accounts a ON a.id = k.account_id
    LEFT JOIN agents g ON g.id = k.agent_id AND g.account_id = k.account_id
    WHERE k.lookup_hash = ANY (p_lookup) OR k.legacy_hash = ANY (p_legacy);
END $$;

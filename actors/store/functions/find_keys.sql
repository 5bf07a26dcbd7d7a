-- `find_priced_keys` without prices, too, for processes of the previous release, which continue to serve during a rolling
-- upgrade. Finds the keys of some hashes (keyed, and plain for imported ones), each with its account, the account's
-- available balance, and its agent. An agent of another account counts as none. Tables are accessed by key, for any
-- number of keys.
--
-- Its plan is made once in a session, perhaps while its tables are empty: `x = ANY (ARRAY[y])` instead of `x = y`, and
-- `SET enable_seqscan = off`, restrict the planner to index look-ups.
CREATE OR REPLACE FUNCTION find_keys(p_lookup bytea[], p_legacy bytea[])
RETURNS TABLE (lookup_hash bytea, legacy_hash bytea, available_nano_usd bigint, id text, account_id text, name text,
    prefix text, kind text, agent_id text, allowed_models text[], expires_at timestamptz, account_logs boolean,
    spend_cap_nano_usd bigint, rpm_limit integer, concurrency_limit integer, user_name text, agent json,
    is_revoked boolean, is_enabled boolean, is_account_enabled boolean)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT k.lookup_hash, k.legacy_hash, a.balance_nano_usd - a.held_nano_usd,
        k.id, k.account_id, k.name, k.prefix, k.kind, k.agent_id, k.allowed_models, k.expires_at,
        k.account_logs, k.spend_cap_nano_usd, a.rpm_limit::integer, a.concurrency_limit::integer,
        k.user_name::text,
        CASE WHEN g.account_id = k.account_id AND k.kind = 'agent' THEN json_build_object(
            'id', g.id, 'user', g.user_name, 'system_prompt', g.system_prompt, 'model', g.model,
            'temperature', g.temperature, 'web_search', g.web_search, 'image_generation', g.image_generation,
            'kbs', g.kbs, 'enabled', g.enabled, 'default_model', a.default_model, 'allowed_models', a.allowed_models)
        END,
        k.revoked_at IS NOT NULL, k.enabled, a.enabled
    FROM keys k JOIN accounts a ON a.id = ANY (ARRAY[k.account_id])
    LEFT JOIN agents g ON g.id = ANY (ARRAY[k.agent_id])
    WHERE k.lookup_hash = ANY (p_lookup) OR k.legacy_hash = ANY (p_legacy);
END $$;

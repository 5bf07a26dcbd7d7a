-- Finds the keys of some hashes (keyed, and plain for imported ones), each with its account, the account's available
-- balance and the version of its budgets, its agent, the prices agreed with its account, and what both demand for data. An
-- agent of another account counts as none. Tables are accessed by key, for any number of keys.
--
-- Its plan is made once in a session, perhaps while its tables are empty: `x = ANY (ARRAY[y])` instead of `x = y`, and
-- `SET enable_seqscan = off`, restrict the planner to index look-ups.
CREATE OR REPLACE FUNCTION find_keys(p_lookup bytea[], p_legacy bytea[])
RETURNS TABLE (lookup_hash bytea, legacy_hash bytea, available_nano_usd bigint, id text, account_id text, name text,
    prefix text, kind text, agent_id text, allowed_models text[], expires_at timestamptz, account_logs boolean,
    spend_cap_nano_usd bigint, rpm_limit integer, concurrency_limit integer, user_name text, agent json,
    prices json, budgets_version bigint, data_demands text[], is_revoked boolean, is_enabled boolean, is_account_enabled boolean)
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
        (SELECT json_agg(json_build_object('id', p.id, 'models', p.models, 'factor', p.factor::text, 'prices', p.prices,
                'valid_from', extract(epoch FROM p.valid_from), 'valid_until', extract(epoch FROM p.valid_until))
                ORDER BY p.valid_from, p.created_at, p.id)
            FROM account_prices p
            WHERE p.account_id = ANY (ARRAY[k.account_id]) AND p.removed_at IS NULL
                AND (p.valid_until IS NULL OR p.valid_until > now())),
        a.budgets_version, nullif(array_remove(ARRAY[a.data_demand::text, k.data_demand::text], NULL), '{}'),
        k.revoked_at IS NOT NULL, k.enabled, a.enabled
    FROM keys k JOIN accounts a ON a.id = ANY (ARRAY[k.account_id])
    LEFT JOIN agents g ON g.id = ANY (ARRAY[k.agent_id])
    WHERE k.lookup_hash = ANY (p_lookup) OR k.legacy_hash = ANY (p_legacy);
END $$;

-- `find_demanding_keys` without demands, for processes of the previous release, which continue to serve during a rolling
-- upgrade; to them a key that demands something, or whose account does, is unknown.
CREATE OR REPLACE FUNCTION find_budgeted_keys(p_lookup bytea[], p_legacy bytea[])
RETURNS TABLE (lookup_hash bytea, legacy_hash bytea, available_nano_usd bigint, id text, account_id text, name text,
    prefix text, kind text, agent_id text, allowed_models text[], expires_at timestamptz, account_logs boolean,
    spend_cap_nano_usd bigint, rpm_limit integer, concurrency_limit integer, user_name text, agent json,
    prices json, budgets_version bigint, is_revoked boolean, is_enabled boolean, is_account_enabled boolean)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT f.lookup_hash, f.legacy_hash, f.available_nano_usd, f.id, f.account_id, f.name, f.prefix, f.kind,
        f.agent_id, f.allowed_models, f.expires_at, f.account_logs, f.spend_cap_nano_usd, f.rpm_limit,
        f.concurrency_limit, f.user_name, f.agent, f.prices, f.budgets_version, f.is_revoked, f.is_enabled,
        f.is_account_enabled
    FROM find_demanding_keys(p_lookup, p_legacy) f WHERE f.data_demands IS NULL;
END $$;

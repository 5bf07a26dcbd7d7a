-- Keys of many accounts: many are read at once, each is told of whatever may befall it, and their last uses, which are
-- written all the time, find room in their pages.

-- Finds the keys of some hashes (keyed, and plain for imported ones), each with its account and what that has
-- available now. A function, because its plan is made once in a session: to plan it took longer than to run it. Its
-- tables are looked up by key, however many are asked for, and never read as a whole.
CREATE FUNCTION find_keys(p_lookup bytea[], p_legacy bytea[])
RETURNS TABLE (lookup_hash bytea, legacy_hash bytea, available_nano_usd bigint, id text, account_id text, name text,
    prefix text, kind text, agent_id text, allowed_models text[], expires_at timestamptz, account_logs boolean,
    spend_cap_nano_usd bigint, rpm_limit integer, concurrency_limit integer, is_revoked boolean, is_enabled boolean,
    is_account_enabled boolean)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT k.lookup_hash, k.legacy_hash, a.balance_nano_usd - a.held_nano_usd,
        k.id, k.account_id, k.name, k.prefix, k.kind, k.agent_id, k.allowed_models, k.expires_at,
        k.account_logs, k.spend_cap_nano_usd, a.rpm_limit::integer, a.concurrency_limit::integer,
        k.revoked_at IS NOT NULL, k.enabled, a.enabled
    FROM keys k JOIN accounts a ON a.id = k.account_id
    WHERE k.lookup_hash = ANY (p_lookup) OR k.legacy_hash = ANY (p_legacy);
END $$;

-- Every column that is read with a key is one whose change is pushed, and so is the end of the row.
DROP TRIGGER keys_push ON keys;
CREATE TRIGGER keys_push AFTER INSERT OR UPDATE OF account_id, name, kind, agent_id, prefix, lookup_hash, legacy_hash,
        allowed_models, expires_at, enabled, revoked_at, account_logs, spend_cap_nano_usd ON keys
    FOR EACH ROW EXECUTE FUNCTION push_change('key');

CREATE FUNCTION push_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gw_changes', TG_ARGV[0] || ':' || OLD.id);
    RETURN NULL;
END $$;

CREATE TRIGGER keys_push_removal AFTER DELETE ON keys
    FOR EACH ROW EXECUTE FUNCTION push_removal('key');

ALTER TABLE keys SET (fillfactor = 70);

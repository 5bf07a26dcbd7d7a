-- What the calls of an account, or of a key, demand for their data: every channel that serves them promises it.
-- `channels/data_promise.py` reads it.
CREATE DOMAIN data_demand AS text CONSTRAINT is_demand CHECK (
    VALUE ~ '^(region=[a-z][a-z0-9-]{0,31}(; retention=(0|[1-9][0-9]{0,4}))?|retention=(0|[1-9][0-9]{0,4}))$'
    AND coalesce(substring(VALUE FROM 'retention=([0-9]+)')::integer, 0) <= 36500);
ALTER TABLE accounts ADD COLUMN data_demand data_demand;
ALTER TABLE keys ADD COLUMN data_demand data_demand;

DROP TRIGGER accounts_push ON accounts;
CREATE TRIGGER accounts_push AFTER INSERT OR UPDATE OF name, enabled, rpm_limit, concurrency_limit, default_model,
        allowed_models, budgets_version, data_demand ON accounts
    FOR EACH ROW EXECUTE FUNCTION push_change('account');
DROP TRIGGER keys_push ON keys;
CREATE TRIGGER keys_push AFTER INSERT OR UPDATE OF account_id, name, kind, agent_id, prefix, lookup_hash, legacy_hash,
        allowed_models, expires_at, enabled, revoked_at, account_logs, spend_cap_nano_usd, data_demand ON keys
    FOR EACH ROW EXECUTE FUNCTION push_change('key');

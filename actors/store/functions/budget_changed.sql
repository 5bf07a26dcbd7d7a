-- The nodes of an account have changed: holds matched by the nodes of before are refused as `stale_budgets`, and nothing is
-- admitted in memory until every process has returned its lease.
CREATE OR REPLACE FUNCTION budget_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE accounts SET budgets_version = budgets_version + 1 WHERE id = coalesce(NEW.account_id, OLD.account_id);
    PERFORM leases_call_back(coalesce(NEW.account_id, OLD.account_id));
    RETURN NULL;
END $$;

-- The nodes of an account have changed: holds matched by the nodes of before are refused as `stale_budgets`, and nothing is
-- admitted in memory until every process has returned its lease. What a sum's spending is below, by a raised limit, is armed
-- again; what it has reached is told.
CREATE OR REPLACE FUNCTION budget_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    reached budget_sums;
BEGIN
    UPDATE accounts SET budgets_version = budgets_version + 1 WHERE id = coalesce(NEW.account_id, OLD.account_id);
    PERFORM leases_call_back(coalesce(NEW.account_id, OLD.account_id));
    IF TG_OP = 'UPDATE' AND NEW.deleted_at IS NULL
        AND (NEW.limit_nano_usd, NEW.action, NEW.warn_at) IS DISTINCT FROM (OLD.limit_nano_usd, OLD.action, OLD.warn_at)
    THEN
        UPDATE budget_sums s SET
            warned = ARRAY(SELECT w FROM unnest(s.warned) w
                           WHERE s.spent_nano_usd::numeric * 100 >= NEW.limit_nano_usd::numeric * w),
            -- What was refused may have left some of the limit, and is told again only if there is more of it.
            exhausted_at = CASE WHEN NEW.limit_nano_usd <= OLD.limit_nano_usd OR s.spent_nano_usd >= NEW.limit_nano_usd
                           THEN s.exhausted_at END
        FROM budget_periods p
        WHERE p.budget_id = NEW.id AND s.account_id = NEW.account_id AND s.budget_id = NEW.id
            AND s.period_from = p.period_from AND (s.warned <> '{}' OR s.exhausted_at IS NOT NULL);
        UPDATE budget_sums s SET alarm_nano_usd = budget_alarm(NEW.limit_nano_usd, NEW.warn_at, s.warned,
            NEW.action <> 'warn' OR s.exhausted_at IS NOT NULL)
        FROM budget_periods p
        WHERE p.budget_id = NEW.id AND s.account_id = NEW.account_id AND s.budget_id = NEW.id
            AND s.period_from = p.period_from;
        FOR reached IN
            SELECT s.* FROM budget_sums s JOIN budget_periods p ON p.budget_id = s.budget_id AND p.period_from = s.period_from
            WHERE s.account_id = NEW.account_id AND s.budget_id = NEW.id AND s.spent_nano_usd >= s.alarm_nano_usd
        LOOP
            PERFORM budget_warn(reached);
        END LOOP;
    END IF;
    RETURN NULL;
END $$;

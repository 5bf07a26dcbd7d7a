-- The present period of a node, by the database's clock; null before its start. A period that has begun never ends early,
-- though the clock goes back. The caller has locked the account.
CREATE OR REPLACE FUNCTION budget_now(p_id text, p_period text, p_zone text, p_starts timestamptz,
    OUT period_from timestamptz, OUT period_to timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    present timestamptz := clock_timestamp();
BEGIN
    SELECT p.period_from, p.period_to INTO period_from, period_to
    FROM budget_periods p WHERE p.budget_id = ANY (ARRAY[p_id]);
    IF period_from IS NULL OR present >= period_to THEN
        SELECT p.period_from, p.period_to INTO period_from, period_to FROM budget_period(p_period, p_zone, p_starts, present) p;
        INSERT INTO budget_periods AS b (budget_id, period_from, period_to)
        SELECT p_id, period_from, period_to WHERE period_from IS NOT NULL
        ON CONFLICT (budget_id) DO UPDATE SET period_from = excluded.period_from, period_to = excluded.period_to;
    END IF;
END $$;

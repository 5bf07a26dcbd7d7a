-- Deletes sums 400 days after the end of their period or of their node; not while a call is open there. At most so many.
-- Returns how many.
CREATE OR REPLACE FUNCTION budget_sums_purge(p_most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    gone integer;
BEGIN
    DELETE FROM budget_sums d USING (
        SELECT s.account_id, s.budget_id, s.subject, s.period_from FROM budget_sums s LEFT JOIN budgets b ON b.id = s.budget_id
        WHERE s.budget_id <> 'run' AND s.held_nano_usd = 0 AND s.leased_nano_usd = 0
            AND least(s.period_to, b.deleted_at) < now() - interval '400 days'
        LIMIT p_most FOR UPDATE OF s SKIP LOCKED) o
    WHERE d.account_id = o.account_id AND d.budget_id = o.budget_id AND d.subject = o.subject AND d.period_from = o.period_from;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

-- Forgets the ceilings of runs so many days after their last hold, with what they have spent; not while a call is open
-- there. At most so many, of accounts that nobody else works at. Returns how many.
CREATE OR REPLACE FUNCTION budget_runs_forget(p_days double precision, p_most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    limit_at timestamptz := clock_timestamp() - p_days * interval '1 day';
    account  text;
    forgot   integer := 0;
    more     integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('budget_runs_forget')) THEN
        RETURN 0; -- another process is at it
    END IF;
    FOR account IN
        SELECT a.id FROM accounts a WHERE a.run_ceilings > 0 AND EXISTS (
            SELECT FROM budget_sums s WHERE s.account_id = a.id AND s.budget_id = 'run' AND s.held_nano_usd = 0
                AND s.leased_nano_usd = 0 AND s.last_hold_at < limit_at)
        ORDER BY a.id FOR NO KEY UPDATE OF a SKIP LOCKED
    LOOP
        DELETE FROM budget_sums WHERE ctid = ANY (ARRAY(
            SELECT s.ctid FROM budget_sums s WHERE s.account_id = account AND s.budget_id = 'run' AND s.held_nano_usd = 0
                AND s.leased_nano_usd = 0 AND s.last_hold_at < limit_at
            LIMIT p_most - forgot));
        GET DIAGNOSTICS more = ROW_COUNT;
        UPDATE accounts SET run_ceilings = run_ceilings - more WHERE id = account;
        forgot := forgot + more;
        EXIT WHEN forgot >= p_most;
    END LOOP;
    RETURN forgot;
END $$;

-- Names a run's ceiling: the least that anyone names holds. Returns why that cannot be, and null if it is done: `leased`
-- while processes lease of the account, since they look for no ceiling as long as it has none, or lease more of the run
-- than its ceiling leaves; `too_many_runs`. The caller has locked the account.
CREATE OR REPLACE FUNCTION budget_run(p_account text, p_run text, p_ceiling bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    runs  integer;
    known budget_sums;
BEGIN
    SELECT * INTO known FROM budget_sums s
    WHERE s.account_id = ANY (ARRAY[p_account]) AND s.budget_id = 'run' AND s.subject = ANY (ARRAY[p_run]);
    IF FOUND THEN
        IF p_ceiling < known.limit_nano_usd THEN
            UPDATE budget_sums s SET limit_nano_usd = p_ceiling,
                alarm_nano_usd = budget_alarm(p_ceiling, '{80}', s.warned, true)
            WHERE s.account_id = p_account AND s.budget_id = 'run' AND s.subject = p_run
            RETURNING s.* INTO known;
            IF known.spent_nano_usd >= known.alarm_nano_usd THEN
                PERFORM budget_warn(known);
            END IF;
        END IF;
        RETURN CASE WHEN known.leased_nano_usd > greatest(0,
            known.limit_nano_usd - known.spent_nano_usd - known.held_nano_usd) THEN 'leased' END;
    END IF;
    SELECT run_ceilings INTO runs FROM accounts WHERE id = ANY (ARRAY[p_account]);
    IF runs >= 100000 THEN
        RETURN 'too_many_runs';
    END IF;
    IF runs = 0 AND EXISTS (SELECT FROM leases l WHERE l.account_id = ANY (ARRAY[p_account])) THEN
        RETURN 'leased';
    END IF;
    PERFORM budget_sum_open(p_account, 'run', p_run, clock_timestamp(), NULL, p_ceiling, 'refuse', '{80}');
    UPDATE accounts SET run_ceilings = run_ceilings + 1 WHERE id = p_account;
    RETURN NULL;
END $$;

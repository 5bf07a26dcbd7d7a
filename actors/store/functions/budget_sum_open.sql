-- Makes the sum of a node in a period unless it is there, and returns it. The caller has locked the account.
CREATE OR REPLACE FUNCTION budget_sum_open(p_account text, p_id text, p_subject text, p_from timestamptz, p_to timestamptz,
    p_limit bigint, p_action text, p_warn_at smallint[])
RETURNS budget_sums LANGUAGE plpgsql AS $$
DECLARE
    sum budget_sums;
BEGIN
    INSERT INTO budget_sums (account_id, budget_id, subject, period_from, period_to, limit_nano_usd, alarm_nano_usd)
    VALUES (p_account, p_id, p_subject, p_from, p_to, CASE WHEN p_id = 'run' THEN p_limit END,
        budget_alarm(p_limit, p_warn_at, '{}', p_action <> 'warn'))
    ON CONFLICT DO NOTHING;
    SELECT * INTO sum FROM budget_sums s
    WHERE s.account_id = ANY (ARRAY[p_account]) AND s.budget_id = ANY (ARRAY[p_id])
        AND s.subject = ANY (ARRAY[p_subject]) AND s.period_from = ANY (ARRAY[p_from]);
    RETURN sum;
END $$;

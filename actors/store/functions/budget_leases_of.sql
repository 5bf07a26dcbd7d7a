-- Ends the leases of an account's nodes by a process: their amounts become available again. The caller has locked the
-- account.
CREATE OR REPLACE FUNCTION budget_leases_of(p_process text, p_account text) RETURNS void LANGUAGE sql AS $$
    WITH ended AS (
        DELETE FROM budget_leases WHERE process_id = ANY (ARRAY[p_process]) AND account_id = ANY (ARRAY[p_account])
        RETURNING account_id, budget_id, subject, period_from, amount_nano_usd
    )
    UPDATE budget_sums s SET leased_nano_usd = s.leased_nano_usd - e.amount_nano_usd
    FROM ended e
    WHERE s.account_id = ANY (ARRAY[e.account_id]) AND s.budget_id = ANY (ARRAY[e.budget_id])
        AND s.subject = ANY (ARRAY[e.subject]) AND s.period_from = ANY (ARRAY[e.period_from])
$$;

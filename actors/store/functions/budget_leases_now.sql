-- All that a process leases of the nodes of these accounts, as `budget_lease` returns it.
CREATE OR REPLACE FUNCTION budget_leases_now(p_process text, p_accounts text[]) RETURNS json LANGUAGE sql AS $$
    SELECT coalesce(json_agg(budget_leased(p_process, s, coalesce(b.limit_nano_usd, s.limit_nano_usd))), '[]')
    FROM budget_leases l
    JOIN budget_sums s ON s.account_id = ANY (ARRAY[l.account_id]) AND s.budget_id = ANY (ARRAY[l.budget_id])
        AND s.subject = ANY (ARRAY[l.subject]) AND s.period_from = ANY (ARRAY[l.period_from])
    LEFT JOIN budgets b ON b.id = ANY (ARRAY[l.budget_id])
    WHERE l.process_id = ANY (ARRAY[p_process]) AND l.account_id = ANY (p_accounts)
$$;

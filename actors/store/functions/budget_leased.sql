-- What a process leases of a sum, as `budget_lease` returns it.
CREATE OR REPLACE FUNCTION budget_leased(p_process text, p_sum budget_sums, p_limit bigint) RETURNS json LANGUAGE sql AS $$
    SELECT json_build_array(p_sum.account_id, p_sum.budget_id, p_sum.subject, p_sum.id,
        extract(epoch FROM p_sum.period_to - clock_timestamp())::float8,
        coalesce((SELECT l.amount_nano_usd FROM budget_leases l
                  WHERE l.process_id = ANY (ARRAY[p_process]) AND l.account_id = ANY (ARRAY[p_sum.account_id])
                      AND l.budget_id = ANY (ARRAY[p_sum.budget_id]) AND l.subject = ANY (ARRAY[p_sum.subject])
                      AND l.period_from = ANY (ARRAY[p_sum.period_from])), 0),
        p_sum.spent_nano_usd >= p_limit, CASE WHEN p_sum.budget_id = 'run' THEN p_limit END)
$$;

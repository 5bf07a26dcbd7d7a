-- The nodes of a call, as its hold and its row have them ({sum, held, sum, held, …}), one by one.
CREATE OR REPLACE FUNCTION budget_parts(p_budgets bigint[]) RETURNS TABLE (sum bigint, held bigint)
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_budgets[place], p_budgets[place + 1] FROM generate_series(1, cardinality(p_budgets), 2) place
$$;

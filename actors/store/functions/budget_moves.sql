-- What settlements of calls that their sums hold move these by, each sum once.
CREATE OR REPLACE FUNCTION budget_moves(p_charges budget_charge[]) RETURNS budget_move[] LANGUAGE sql AS $$
    SELECT array_agg((m.sum, 0, m.spent, m.held, m.excess)::budget_move) FROM (
        SELECT n.sum, total_of(c.cost) AS spent, -total_of(n.held) AS held, total_of(greatest(0, c.cost - n.held)) AS excess
        FROM unnest(p_charges) c, budget_parts(c.budgets) n
        GROUP BY n.sum) m
$$;

-- Of what a call holds on nodes, what it holds on those that pay for it once a model of its chain has served it; or
-- (`p_pays` false) on the others, which are the nodes of the models that have not. Null: nothing.
--
-- p_model   what the call asked for, whose nodes pay whichever model serves
-- p_served  null: not known, or the call is of no chain; then all pay
CREATE OR REPLACE FUNCTION budget_served(p_budgets bigint[], p_model text, p_served text, p_pays boolean) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
    SELECT nullif(ARRAY(
        SELECT v.value
        FROM budget_parts(p_budgets) WITH ORDINALITY AS n(sum, held, place),
            unnest(ARRAY[n.sum, n.held]) WITH ORDINALITY AS v(value, half)
        WHERE p_pays <> (p_served IS NOT NULL AND EXISTS (
            SELECT FROM budget_sums s JOIN budgets b ON b.id = ANY (ARRAY[s.budget_id])
            WHERE s.id = ANY (ARRAY[n.sum]) AND b.scope = 'model' AND b.subject NOT IN (p_model, p_served)))
        ORDER BY n.place, v.half), '{}')
$$;

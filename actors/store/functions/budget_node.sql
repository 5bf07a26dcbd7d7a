-- What is to be known of a node for its holds and warnings; of a run's ceiling, which has no row, what stands for it. No
-- row: there is none, or it is deleted and `p_with_deleted` false.
CREATE OR REPLACE FUNCTION budget_node(p_account text, p_id text, p_subject text, p_limit bigint, p_with_deleted boolean)
RETURNS TABLE (name text, scope text, about text, limit_nano_usd bigint, action text, warn_at smallint[])
LANGUAGE sql STABLE AS $$
    SELECT b.name, b.scope, coalesce(b.subject, p_subject), b.limit_nano_usd, b.action, b.warn_at
    FROM budgets b
    WHERE b.id = ANY (ARRAY[p_id]) AND b.account_id = p_account AND (p_with_deleted OR b.deleted_at IS NULL)
    UNION ALL
    SELECT p_subject, 'run', p_subject, p_limit, 'refuse', '{80}' WHERE p_id = 'run'
$$;

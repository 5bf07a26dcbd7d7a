-- live --
-- The version of an account's budgets, and its live nodes, each with the seconds until it starts.
SELECT a.budgets_version,
    (SELECT json_agg(json_build_array(b.id, b.scope, coalesce(b.subject, ''), b.period, b.name, b.action = 'refuse',
            greatest(extract(epoch FROM b.starts_at - clock_timestamp()), 0)))
        FROM budgets b WHERE b.account_id = a.id AND b.deleted_at IS NULL)
FROM accounts a WHERE a.id = %s

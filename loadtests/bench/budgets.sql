-- two_nodes --
-- Give an account two nodes that every plain call matches, and that are far from their limits.
INSERT INTO budgets (id, account_id, name, scope, subject, limit_nano_usd, period, made_by)
SELECT 'bud_' || scope || id, id, scope, scope, subject, 1000000000000000, period, 'operator'
FROM accounts, (VALUES ('account', NULL, 'month'), ('model', %(model)s, 'day')) AS n (scope, subject, period)
WHERE name = %(account)s

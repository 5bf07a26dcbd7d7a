-- bases --
-- Knowledge bases of all accounts or of one, by number.
SELECT b.no, b.account_id, a.name, b.kb_id, b.user_name, b.name, b.pages, b.is_restricted, b.updated_at
FROM kb_bases b JOIN accounts a ON a.id = b.account_id
WHERE (%(account)s::text IS NULL OR b.account_id = %(account)s) AND b.no > %(after)s ORDER BY b.no LIMIT %(limit)s

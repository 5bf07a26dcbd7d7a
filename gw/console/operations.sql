-- system --
-- The last proof of the ledger, the age of the oldest hold of a call and the delay of the latest poll of a task in
-- seconds, and the number of live processes.
SELECT (SELECT proved_at FROM ledger_proofs), (SELECT faults FROM ledger_proofs),
    (SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM holds WHERE process_id IS NOT NULL),
    (SELECT greatest(coalesce(extract(epoch FROM now() - min(due_at)), 0), 0)::float8 FROM job_polls),
    (SELECT count(*) FROM processes WHERE buried_at IS NULL AND heartbeat_at > now() - interval '15 seconds')

-- bases --
-- Knowledge bases of all accounts or of one, by number.
SELECT b.no, b.account_id, a.name, b.kb_id, b.user_name, b.name, b.pages, b.is_restricted, b.updated_at
FROM kb_bases b JOIN accounts a ON a.id = b.account_id
WHERE (%(account)s::text IS NULL OR b.account_id = %(account)s) AND b.no > %(after)s ORDER BY b.no LIMIT %(limit)s

-- playable --
-- The newest revealable keys that can be used for a call now, of all accounts or of one.
SELECT k.id, k.name, k.prefix FROM keys k JOIN accounts a ON a.id = k.account_id
WHERE (%(account)s::text IS NULL OR k.account_id = %(account)s) AND k.sealed IS NOT NULL AND k.kind <> 'agent'
    AND k.enabled AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()) AND a.enabled
ORDER BY k.created_at DESC, k.id LIMIT 100

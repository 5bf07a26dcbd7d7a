-- playable --
-- The newest revealable keys that can be used for a call now, of all accounts or of one.
SELECT k.id, k.name, k.prefix FROM keys k JOIN accounts a ON a.id = k.account_id
WHERE (%(account)s::text IS NULL OR k.account_id = %(account)s) AND k.sealed IS NOT NULL AND k.kind <> 'agent'
    AND k.enabled AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()) AND a.enabled
ORDER BY k.created_at DESC, k.id LIMIT 100

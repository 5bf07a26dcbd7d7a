-- ask --
-- Insert a request for a key of an agent.
INSERT INTO key_requests (id, {{new_columns}}) VALUES (%(id)s, {{new_values}})

-- request --
-- One request for a key.
SELECT {{columns}} FROM key_requests r WHERE id = %s

-- requests --
-- The requests of an account, oldest first.
SELECT {{columns}} FROM key_requests r WHERE account_id = %s ORDER BY created_at, id

-- pending_requests --
-- The pending requests of all accounts, the oldest first, with the names of account and agent.
SELECT r.id, r.account_id, a.name, r.agent_id, g.name, r.name, r.requested_by, r.spend_cap_nano_usd, r.created_at
FROM key_requests r JOIN accounts a ON a.id = r.account_id JOIN agents g ON g.id = r.agent_id
WHERE r.status = 'pending' AND (%(at)s::timestamptz IS NULL OR (r.created_at, r.id) > (%(at)s, %(id)s))
ORDER BY r.created_at, r.id LIMIT %(limit)s

-- decide --
-- Approve or reject a request, once.
UPDATE key_requests SET status = %s, decided_at = now(), decided_by = %s, decided_on = %s
WHERE id = %s AND status = 'pending'

-- insert --
-- Insert an agent.
INSERT INTO agents (id, {{new_columns}}) VALUES (%(id)s, {{new_values}})

-- show --
-- One agent, with its account's default model.
SELECT {{columns}}
FROM agents g JOIN accounts a ON a.id = g.account_id
WHERE g.id = %s

-- list --
-- All agents, or those of an account, the oldest first.
SELECT {{columns}}
FROM agents g JOIN accounts a ON a.id = g.account_id
WHERE %(account)s::text IS NULL OR g.account_id = %(account)s ORDER BY g.created_at, g.id

-- newest_first --
-- Agents of an account, or of all, the newest first.
SELECT {{columns}}
FROM agents g JOIN accounts a ON a.id = g.account_id
WHERE (%(account)s::text IS NULL OR g.account_id = %(account)s)
    AND (%(at)s::timestamptz IS NULL OR (g.created_at, g.id) < (%(at)s, %(id)s))
ORDER BY g.created_at DESC, g.id DESC LIMIT %(limit)s

-- change --
-- Change settings, as far as given.
UPDATE agents SET {{settings}} WHERE id = %(id)s

-- is_locked --
-- Whether an operator has disabled an agent; the row is kept from changes until the transaction ends.
SELECT locked FROM agents WHERE id = %s FOR NO KEY UPDATE

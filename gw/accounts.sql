-- insert --
-- Insert an account without money.
INSERT INTO accounts (id, {{new_columns}}) VALUES (%(id)s, {{new_values}})

-- insert_once --
-- Insert an account without money, unless its id exists.
INSERT INTO accounts (id, name, enabled) VALUES (%(id)s, %(name)s, %(enabled)s)
ON CONFLICT (id) DO NOTHING

-- show --
-- One account.
SELECT {{columns}}
FROM accounts a WHERE id = %s

-- list --
-- All accounts, the oldest first.
SELECT {{columns}}
FROM accounts a ORDER BY created_at, id

-- newest_first --
-- Accounts, the newest first.
SELECT {{columns}}
FROM accounts a WHERE %(at)s::timestamptz IS NULL OR (created_at, id) < (%(at)s, %(id)s)
ORDER BY created_at DESC, id DESC LIMIT %(limit)s

-- change --
-- Change settings, as far as given. Whoever is signed in as the owner of an account that is disabled is signed out.
WITH signed_out AS (
    DELETE FROM console_sessions WHERE account_id = %(id)s AND %(set_enabled)s AND NOT %(enabled)s::boolean
), taken_back AS (
    DELETE FROM console_links WHERE account_id = %(id)s AND %(set_enabled)s AND NOT %(enabled)s::boolean
)
UPDATE accounts SET {{settings}} WHERE id = %(id)s

-- insert --
-- Insert an account without money.
INSERT INTO accounts (id, name, rpm_limit, concurrency_limit)
VALUES (%(id)s, %(name)s, %(rpm_limit)s, %(concurrency_limit)s)

-- insert_once --
-- Insert an account without money, unless its id exists.
INSERT INTO accounts (id, name, enabled) VALUES (%(id)s, %(name)s, %(enabled)s)
ON CONFLICT (id) DO NOTHING

-- show --
-- One account.
SELECT id, name, enabled, balance_nano_usd, held_nano_usd, rpm_limit, concurrency_limit, created_at, default_model,
       allowed_models
FROM accounts WHERE id = %s

-- list --
-- All accounts, the oldest first.
SELECT id, name, enabled, balance_nano_usd, held_nano_usd, rpm_limit, concurrency_limit, created_at, default_model,
       allowed_models
FROM accounts ORDER BY created_at, id

-- limit --
-- Set limits, as far as given; null is no limit.
UPDATE accounts SET
    rpm_limit = CASE WHEN %(set_rpm_limit)s THEN %(rpm_limit)s::integer ELSE rpm_limit END,
    concurrency_limit = CASE WHEN %(set_concurrency_limit)s THEN %(concurrency_limit)s::integer
                             ELSE concurrency_limit END
WHERE id = %(id)s

-- enable --
-- Enable or disable an account, and so its keys. Whoever is signed in as the owner of a disabled one is signed out.
WITH signed_out AS (
    DELETE FROM console_sessions WHERE account_id = %(id)s AND NOT %(enabled)s
), taken_back AS (
    DELETE FROM console_links WHERE account_id = %(id)s AND NOT %(enabled)s
)
UPDATE accounts SET enabled = %(enabled)s WHERE id = %(id)s

-- set_models --
-- Set the default model of the account's agents, and the models it may call, as far as given.
UPDATE accounts SET
    default_model = CASE WHEN %(set_default_model)s THEN %(default_model)s ELSE default_model END,
    allowed_models = CASE WHEN %(set_allowed_models)s THEN %(allowed_models)s::text[] ELSE allowed_models END
WHERE id = %(id)s

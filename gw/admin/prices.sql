-- insert --
-- Insert a price agreed with an account.
INSERT INTO account_prices (id, account_id, models, factor, prices, valid_from, valid_until)
VALUES (%(id)s, %(account)s, %(models)s::text[], %(factor)s::numeric, %(prices)s::json,
        coalesce(%(valid_from)s::timestamptz, now()), %(valid_until)s::timestamptz)

-- list --
-- The prices agreed with an account, expired ones too, by the start of their validity.
SELECT id, account_id, models, factor::text, prices, valid_from, valid_until, created_at, removed_at
FROM account_prices WHERE account_id = %s ORDER BY valid_from, created_at, id

-- count --
-- The number of present and future prices.
SELECT count(*) FROM account_prices
WHERE account_id = %s AND removed_at IS NULL AND (valid_until IS NULL OR valid_until > now())

-- remove --
-- Remove a price; calls priced by it are unchanged.
UPDATE account_prices SET removed_at = now() WHERE id = %s AND account_id = %s AND removed_at IS NULL

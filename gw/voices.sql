-- add --
-- Insert a voice that an upstream has created for an account; repeating it changes nothing.
INSERT INTO voices (id, account_id, name, channel_id, upstream_id, call_id, created_at)
VALUES (%s, %s, %s, %s, %s, %s, to_timestamp(%s))
ON CONFLICT (id) DO NOTHING

-- one --
-- A voice of an account.
SELECT id, name, channel_id, upstream_id FROM voices WHERE id = %s AND account_id = %s

-- of_account --
-- The voices of an account, the newest first.
SELECT id, name, channel_id, upstream_id FROM voices WHERE account_id = %s
ORDER BY created_at DESC, id DESC LIMIT %s

-- read --
-- The sealed key of the digests of end users' names.
SELECT sealed FROM end_user_key

-- make --
-- The same, by the process that is first.
INSERT INTO end_user_key (sealed) VALUES (%s) ON CONFLICT DO NOTHING

-- seal --
-- The same key sealed anew.
UPDATE end_user_key SET sealed = %s

-- insert_token --
-- Insert a token.
INSERT INTO admin_tokens (id, digest, created_by, {{new_columns}}) VALUES (%(id)s, %(digest)s, %(by)s, {{new_values}})

-- token --
-- One token.
SELECT {{columns}} FROM admin_tokens t WHERE id = %s

-- tokens --
-- All tokens, the oldest first.
SELECT {{columns}} FROM admin_tokens t ORDER BY created_at, id

-- find_token --
-- The token of a digest, if it is not revoked.
SELECT {{columns}} FROM admin_tokens t WHERE digest = %s AND revoked_at IS NULL

-- revoke_token --
-- Revoke a token; the first revocation's time stays.
UPDATE admin_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE id = %s

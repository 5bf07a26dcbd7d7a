-- answer --
-- The response stored under an account's key for this request, and its call.
SELECT call_id::text, status, headers, body FROM idempotency
WHERE account_id = %s AND key = %s AND fingerprint = %s AND state = 'stored' AND expires_at > now()

-- state --
-- The state of a key of an account for this request, by the function that judges its hold.
SELECT idempotency_find(json_build_array(json_build_object(
    'seq', 1, 'account_id', %s, 'key', %s, 'fingerprint', %s))) -> '1' ->> 'standing'

-- is_known --
-- Whether a key of an account is in use: by a call in progress or by a stored response.
SELECT EXISTS (SELECT FROM idempotency i
               WHERE i.account_id = %s AND i.key = %s
                 AND idempotency_stands(i.state, i.call_id, i.expires_at))

-- forget_expired --
-- Delete expired keys, at most so many. A row that is being claimed is skipped.
WITH expired AS (
    SELECT i.account_id, i.key FROM idempotency i
    WHERE i.expires_at <= now() AND NOT idempotency_stands(i.state, i.call_id, i.expires_at)
    ORDER BY i.expires_at LIMIT %(rows)s FOR UPDATE SKIP LOCKED
)
DELETE FROM idempotency i USING expired
WHERE i.account_id = expired.account_id AND i.key = expired.key

-- forget_expired_of_admin --
-- Delete expired keys of the admin API, at most so many. A row whose response is being read is skipped.
WITH expired AS (
    SELECT scope, key FROM admin_responses WHERE created_at <= now() - %(days)s * interval '1 day'
    ORDER BY created_at LIMIT %(rows)s FOR UPDATE SKIP LOCKED
)
DELETE FROM admin_responses r USING expired WHERE r.scope = expired.scope AND r.key = expired.key

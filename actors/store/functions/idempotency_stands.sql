-- Whether a row is still valid. A call under way keeps its key, however long it takes. (It takes columns, because a
-- whole row would be built with its body.)
CREATE OR REPLACE FUNCTION idempotency_stands(p_state text, p_call_id uuid, p_expires_at timestamptz)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_expires_at > now()
        OR p_state = 'executing' AND EXISTS (SELECT FROM holds h WHERE h.call_id = p_call_id)
$$;

-- Returns {seq: {key, standing}} of the holds that claim a key; the standing is null if the key is free.
--
-- p_wanted [{seq, account_id, call_id, key, fingerprint}]
CREATE OR REPLACE FUNCTION idempotency_find(p_wanted json) RETURNS jsonb LANGUAGE sql AS $$
    SELECT jsonb_object_agg(x.seq, jsonb_build_object('key', x.key, 'standing', CASE
            WHEN NOT i.stands THEN NULL
            -- For any request: only a stored response takes the key for good, and there is none yet.
            WHEN i.state = 'executing' THEN 'in_flight'
            WHEN i.fingerprint <> decode(x.fingerprint, 'hex') THEN 'reuse'
            ELSE i.state END))  -- null where there is no row
    FROM json_to_recordset(p_wanted) AS x(seq integer, account_id text, key text, fingerprint text)
    LEFT JOIN LATERAL (
        -- OFFSET 0: one look-up for each key, whatever the planner estimates for a small table.
        SELECT i.fingerprint, i.state, idempotency_stands(i.state, i.call_id, i.expires_at) AS stands
        FROM idempotency i WHERE i.account_id = x.account_id AND i.key = x.key OFFSET 0) i ON true
$$;

-- Ends the claims of settled calls: their responses are stored for seven days, or their keys are freed.
--
-- p_ended [{call_id, state, status, headers, body}]   state: stored | too_large | free; body: base64
--
-- A settlement without an entry here leaves its key claimed until it expires: its client may retry while the upstream
-- works. A settlement that was not applied, because another was first, changes nothing here either.
CREATE OR REPLACE FUNCTION idempotency_end(p_ended json, p_settled uuid[]) RETURNS void LANGUAGE sql AS $$
    WITH ended AS MATERIALIZED (
        SELECT * FROM json_to_recordset(p_ended)
            AS x(call_id uuid, state text, status smallint, headers json, body text)
        WHERE x.call_id = ANY (p_settled)
    ), freed AS (
        DELETE FROM idempotency i USING ended e
        WHERE i.call_id = ANY (ARRAY[e.call_id]) AND i.state = 'executing' AND e.state = 'free'
    )
    UPDATE idempotency i SET state = e.state, status = e.status, headers = e.headers,
        body = decode(e.body, 'base64'), expires_at = now() + interval '7 days'
    FROM ended e
    WHERE i.call_id = ANY (ARRAY[e.call_id]) AND i.state = 'executing' AND e.state <> 'free'
$$;

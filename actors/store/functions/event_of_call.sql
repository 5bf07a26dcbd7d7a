-- Writes `call.settled` of a row of the call log: `data` is the row as `call_log_rows` has it, which readers show as the
-- call log does. No notification: whoever wants these events looks every second.
CREATE OR REPLACE FUNCTION event_of_call(p_request uuid, p_at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events_written (id, type, at, account_id, data)
    SELECT 'evt_' || replace(gen_random_uuid()::text, '-', ''), 'call.settled', r.created_at, r.account_id,
        row_to_json(r)
    FROM call_log_rows r WHERE r.request_id = p_request AND r.created_at = p_at;
END $$;

-- Writes `call.settled` for each new row of the call log, and again for one that was corrected, while anyone wants them.
-- `data` is the row as `call_log_rows` has it, which readers show as the call log does. No notification: whoever wants
-- these events looks every second.
CREATE OR REPLACE FUNCTION events_of_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM event_call_readers) THEN
        INSERT INTO events_written (id, type, at, account_id, data)
        SELECT 'evt_' || replace(gen_random_uuid()::text, '-', ''), 'call.settled', r.created_at, r.account_id,
            (to_jsonb(r) - 'attempts')::json
        FROM new_rows n JOIN call_log_rows r ON r.request_id = n.request_id AND r.created_at = n.created_at
        ORDER BY r.id;
    END IF;
    RETURN NULL;
END $$;

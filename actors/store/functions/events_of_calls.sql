-- Writes `call.settled` again for rows of the call log that were corrected, while anyone wants these events. Of new rows
-- `call_logs_roll_up` writes it: a trigger of its own for each statement cost a small batch a twelfth.
CREATE OR REPLACE FUNCTION events_of_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM event_call_readers) THEN
        PERFORM event_of_call(request_id, created_at) FROM new_rows ORDER BY id;
    END IF;
    RETURN NULL;
END $$;

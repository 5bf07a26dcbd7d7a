-- Events of calls are written while a webhook that works names them.
CREATE OR REPLACE FUNCTION webhook_reads_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.enabled AND NEW.deleted_at IS NULL AND NEW.types && ARRAY['call.settled', 'call.*'] THEN
        INSERT INTO event_call_readers (name) VALUES (NEW.id) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM event_call_readers WHERE name = NEW.id;
    END IF;
    RETURN NULL;
END $$;

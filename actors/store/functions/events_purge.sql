-- Deletes the oldest events: at most `p_most` that were numbered before `p_before` and that no webhook awaits. Returns how
-- many.
CREATE OR REPLACE FUNCTION events_purge(p_before timestamptz, p_most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    awaited   bigint := events_awaited();
    last_gone bigint;
    gone      bigint;
BEGIN
    PERFORM FROM event_numbers FOR UPDATE;
    SELECT max(sequence) INTO last_gone FROM (SELECT * FROM events ORDER BY sequence LIMIT p_most) oldest
    WHERE numbered_at < p_before AND (sequence < awaited) IS NOT FALSE;
    IF last_gone IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM events WHERE sequence <= last_gone;
    GET DIAGNOSTICS gone = ROW_COUNT;
    UPDATE event_numbers SET purged = last_gone;
    RETURN gone;
END $$;

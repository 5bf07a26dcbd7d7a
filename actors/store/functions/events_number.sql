-- Numbers at most `p_most` written events, in the order in which they were written; returns how many. In READ COMMITTED:
-- each statement sees what was committed before it, so after the lock nothing is missed that a number given before has
-- passed.
CREATE OR REPLACE FUNCTION events_number(p_most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    start   bigint;
    instant timestamptz;
    moved   bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM events_written) THEN
        RETURN 0;
    END IF;
    SELECT last, greatest(numbered_at, clock_timestamp()) INTO start, instant FROM event_numbers FOR UPDATE;
    WITH taken AS (
        DELETE FROM events_written
        WHERE place = ANY (ARRAY(SELECT place FROM events_written ORDER BY place LIMIT p_most))
        RETURNING *
    )
    INSERT INTO events (sequence, id, type, at, account_id, data, numbered_at)
    SELECT start + row_number() OVER (ORDER BY place), id, type, at, account_id, data, instant FROM taken;
    GET DIAGNOSTICS moved = ROW_COUNT;
    IF moved > 0 THEN
        UPDATE event_numbers SET last = start + moved, numbered_at = instant;
    END IF;
    RETURN moved;
END $$;

-- Counts, once among all processes, at most `p_most` numbered events for the metrics of the one that asks: {type: how many},
-- null where none was left.
CREATE OR REPLACE FUNCTION events_count(p_most integer) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    done   bigint;
    upto   bigint;
    counts json;
BEGIN
    IF NOT EXISTS (SELECT FROM event_numbers WHERE counted < last) THEN
        RETURN NULL;
    END IF;
    SELECT counted, least(last, counted + p_most) INTO done, upto FROM event_numbers FOR UPDATE;
    SELECT json_object_agg(type, many) INTO counts FROM (
        SELECT type, count(*) AS many FROM events WHERE sequence > done AND sequence <= upto GROUP BY type) t;
    UPDATE event_numbers SET counted = upto;
    RETURN counts;
END $$;

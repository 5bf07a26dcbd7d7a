-- The spans of a day of UTC that have sums of their own once they are over for an hour (`call_log_attributed_spans`).
-- p_stored: the most values of one kind that the account has on that day; few are added up quickly out of the hours.
CREATE OR REPLACE FUNCTION attributed_spans(p_day date, p_stored integer) RETURNS TABLE (hours smallint, start timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT s.hours, s.start
    FROM (
        SELECT 24::smallint AS hours, p_day::timestamp AT TIME ZONE 'UTC' AS start
        UNION ALL
        SELECT 3, three.start AT TIME ZONE 'UTC'
        FROM generate_series(p_day::timestamp, p_day + interval '21 hours', '3 hours') AS three (start)
        WHERE p_stored >= 500
    ) s
    WHERE s.start + s.hours * interval '1 hour' <= now() - interval '1 hour'
$$;

-- The first instant of a local date: of two midnights the first; where midnight is skipped, the end of the gap; where the
-- whole date is, that of the next one.
CREATE OR REPLACE FUNCTION zone_day(p_day date, p_zone text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    utc    timestamptz := p_day::timestamp AT TIME ZONE 'UTC';
    found  timestamptz;
    before timestamptz;
    after  timestamptz;
    middle timestamptz;
BEGIN
    -- By each offset of about then: an instant is right if it is midnight there.
    SELECT min(utc - o) INTO found
    FROM (SELECT zone_local(utc + make_interval(hours => h), p_zone) - (utc + make_interval(hours => h)) AT TIME ZONE 'UTC'
          FROM generate_series(-42, 42, 12) h) AS offsets(o)
    WHERE zone_local(utc - o, p_zone) = p_day::timestamp;
    IF found IS NOT NULL THEN
        RETURN found;
    END IF;
    before := utc - interval '50 hours';
    after := utc + interval '50 hours';
    WHILE after - before > interval '1 second' LOOP
        middle := date_trunc('second', before + (after - before) / 2);
        IF zone_local(middle, p_zone)::date >= p_day THEN
            after := middle;
        ELSE
            before := middle;
        END IF;
    END LOOP;
    RETURN after;
END $$;

-- The period of a node that an instant is in: from this instant, to before that one (null: for ever). Both are null before
-- the node's start.
CREATE OR REPLACE FUNCTION budget_period(p_period text, p_zone text, p_starts timestamptz, p_at timestamptz,
    OUT period_from timestamptz, OUT period_to timestamptz)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    unit  interval := CASE p_period WHEN 'day' THEN interval '1 day' WHEN 'week' THEN interval '7 days'
                      ELSE interval '1 month' END;
    first date;
BEGIN
    IF p_at < p_starts THEN
        RETURN;
    END IF;
    IF p_period = 'total' THEN
        period_from := p_starts;
        RETURN;
    END IF;
    first := date_trunc(p_period, zone_local(p_at, p_zone))::date;
    period_from := zone_day(first, p_zone);
    period_to := zone_day((first + unit)::date, p_zone);
    -- A clock that is put back over midnight has begun the next day before, a whole date that is skipped no day at all.
    WHILE p_at >= period_to LOOP
        first := (first + unit)::date;
        period_from := period_to;
        period_to := zone_day((first + unit)::date, p_zone);
    END LOOP;
END $$;

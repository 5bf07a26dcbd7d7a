-- Makes the sums of one day of an account that is over, out of those of its hours; returns whether there was one. The
-- account is locked, so that what is written meanwhile is either among the hours, or finds the day and adds to it.
CREATE OR REPLACE FUNCTION attributed_build_day() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    built call_log_attributed_days;
BEGIN
    SELECT c.account_id, c.day INTO built FROM attribution_counts c
    WHERE c.day < (now() AT TIME ZONE 'UTC' - interval '1 hour')::date
        AND NOT EXISTS (SELECT FROM call_log_attributed_days d WHERE d.account_id = c.account_id AND d.day = c.day)
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM accounts WHERE id = built.account_id FOR NO KEY UPDATE;
    INSERT INTO call_log_attributed_days SELECT built.* ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO call_log_attributed
        SELECT h.account_id, 24, h.what, built.day::timestamp AT TIME ZONE 'UTC', h.value, h.key_id, sum(h.requests),
            sum(h.cost_nano_usd), sum(h.input_tokens), sum(h.output_tokens), sum(h.cached_tokens)
        FROM attribution_counts c JOIN call_log_attributed h ON h.account_id = c.account_id AND h.hours = 1
            AND h.what = c.what AND h.bucket >= built.day::timestamp AT TIME ZONE 'UTC'
            AND h.bucket < (built.day + 1)::timestamp AT TIME ZONE 'UTC'
        WHERE c.account_id = built.account_id AND c.day = built.day
        GROUP BY 1, 3, 5, 6;
    END IF;
    RETURN true;
END $$;

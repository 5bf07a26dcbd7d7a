-- Makes the partitions of so many months, and of every month that has rows in the default one, which are moved. Returns
-- the number of new partitions.
--
-- Settlements do not wait for it: a table is made unattached and then attached, which needs a lock on the parent that
-- does not conflict with inserts. Only the default partition is locked for a moment, because its rows may belong to the
-- new month. A reader of the whole log may hold that lock for long, so the wait is bounded and the work is retried
-- later; until then the default partition takes the rows.
--
-- Rows move below the parent's triggers: they were counted when they were inserted (`call_logs_roll_up`).
CREATE OR REPLACE FUNCTION call_logs_make_partitions(p_first date, p_months integer) RETURNS integer LANGUAGE plpgsql
SET lock_timeout = '2s' AS $$
DECLARE
    month date;
    made  integer := 0;
    name  text;
    since timestamptz;
    until timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('call_logs_partitions'));
    FOR month IN
        SELECT (date_trunc('month', p_first) + make_interval(months => step))::date
        FROM generate_series(0, p_months - 1) step
        UNION
        SELECT date_trunc('month', created_at AT TIME ZONE 'UTC')::date FROM call_logs_default
        ORDER BY 1
    LOOP
        name := 'call_logs_' || to_char(month, 'YYYY_MM');
        CONTINUE WHEN to_regclass(name) IS NOT NULL;
        -- Bounds are instants in UTC, whatever the session's time zone is.
        since := month::timestamp AT TIME ZONE 'UTC';
        until := (month + interval '1 month') AT TIME ZONE 'UTC';
        EXECUTE format('CREATE TABLE %I (LIKE call_logs INCLUDING ALL)', name);
        LOCK TABLE ONLY call_logs IN SHARE UPDATE EXCLUSIVE MODE;
        LOCK TABLE call_logs_default IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('WITH moved AS (DELETE FROM call_logs_default WHERE created_at >= %L AND created_at < %L'
            ' RETURNING *) INSERT INTO %I SELECT * FROM moved', since, until, name);
        EXECUTE format('ALTER TABLE call_logs ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, since, until);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

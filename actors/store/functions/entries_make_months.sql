-- Makes the tables of so many months, and of every month that has entries in the default one, which are moved. Returns
-- the number of new tables. Locks as `call_logs_make_partitions`.
CREATE OR REPLACE FUNCTION entries_make_months(p_first date, p_months integer) RETURNS integer LANGUAGE plpgsql
SET lock_timeout = '2s' AS $$
DECLARE
    month date;
    made  integer := 0;
    name  text;
    since timestamptz;
    ends  timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('entries_months'));
    FOREACH month IN ARRAY ARRAY(
        SELECT (date_trunc('month', p_first) + make_interval(months => step))::date
        FROM generate_series(0, p_months - 1) step
        UNION
        SELECT date_trunc('month', created_at AT TIME ZONE 'UTC')::date FROM entries_default
        ORDER BY 1)
    LOOP
        name := 'entries_' || to_char(month, 'YYYY_MM');
        ends := (month + interval '1 month') AT TIME ZONE 'UTC';
        CONTINUE WHEN EXISTS (SELECT FROM entry_months m WHERE m.ends_at = ends);
        since := greatest(month::timestamp AT TIME ZONE 'UTC',
            (SELECT max(m.ends_at) FROM entry_months m WHERE m.ends_at < ends));
        PERFORM entries_new_table(name);
        LOCK TABLE ONLY entries IN SHARE UPDATE EXCLUSIVE MODE;
        LOCK TABLE entries_default IN ACCESS EXCLUSIVE MODE;
        ALTER TABLE entries_default DISABLE TRIGGER entries_append_only;
        EXECUTE format('WITH moved AS (DELETE FROM entries_default WHERE created_at >= %L AND created_at < %L'
            ' RETURNING *) INSERT INTO %I SELECT * FROM moved', since, ends, name);
        ALTER TABLE entries_default ENABLE TRIGGER entries_append_only;
        EXECUTE format('ALTER TABLE entries ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, since, ends);
        INSERT INTO entry_months (ends_at, name) VALUES (ends, name);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- Drops the oldest month of entries that ended by p_first_kept and returns it; no row if there is none, or if it has to
-- stay: it has no checkpoint, or the call log has rows that it may belong to. Raises if the checkpoint differs from the
-- sums of its entries. Locks as `call_logs_drop_month`.
CREATE OR REPLACE FUNCTION entries_drop_month(p_first_kept date)
RETURNS TABLE (month text, entry_count bigint) LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
DECLARE
    -- By this server's clock too: a gateway whose clock is ahead must not drop recent entries.
    first_kept date := least(p_first_kept, date_trunc('month', now() AT TIME ZONE 'UTC')::date);
    until      timestamptz;
    is_sealed  boolean;
    differs    boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('entries_months')) THEN
        RETURN; -- another process is at it
    END IF;
    SELECT m.name, m.ends_at, m.sealed_at IS NOT NULL, m.entries INTO month, until, is_sealed, entry_count
    FROM entry_months m WHERE m.dropped_at IS NULL ORDER BY m.ends_at LIMIT 1;
    IF month IS NULL OR NOT is_sealed OR until > first_kept::timestamp AT TIME ZONE 'UTC'
        -- A row may be in the month after its entries', if its gateway's clock was ahead.
        OR EXISTS (SELECT FROM call_logs l WHERE l.created_at < until + interval '1 month') THEN
        RETURN;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM ('
        'SELECT account_id, coalesce(key_id, '''') AS key_id, count(*) AS entries, sum(amount_nano_usd) AS amount,'
        ' sum(held_nano_usd) AS held FROM %I GROUP BY 1, 2) e'
        ' FULL JOIN (SELECT * FROM checkpoint_sums WHERE ends_at = %L) s USING (account_id, key_id)'
        ' WHERE (e.entries, e.amount, e.held) IS DISTINCT FROM (s.entries, s.amount_nano_usd, s.held_nano_usd))',
        month, until) INTO differs;
    IF differs THEN
        RAISE EXCEPTION 'the checkpoint of % is not what its entries come to', month;
    END IF;
    DELETE FROM checkpoint_entries c WHERE c.ends_at < until;
    UPDATE entry_months m SET dropped_at = now() WHERE m.ends_at = until;
    EXECUTE format('DROP TABLE %I', month);
    RETURN NEXT;
END $$;

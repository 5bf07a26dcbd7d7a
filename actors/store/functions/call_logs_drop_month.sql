-- Drops the oldest month before p_first_kept, with its sums, and returns it; no row if there is none. One month for
-- each transaction. The only lock that conflicts with settlements is taken last, with a timeout of a fifth of a second:
-- on a timeout nothing has changed.
CREATE OR REPLACE FUNCTION call_logs_drop_month(p_first_kept date)
RETURNS TABLE (month date, row_count bigint, cost_nano_usd bigint) LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
DECLARE
    -- By this server's clock too: a gateway whose clock is ahead must not drop recent rows.
    first_kept date := least(p_first_kept, date_trunc('month', now() AT TIME ZONE 'UTC')::date);
    name       text;
    carried    json;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('call_logs_partitions')) THEN
        RETURN; -- another process is at it
    END IF;
    SELECT c.relname, to_date(right(c.relname, 7), 'YYYY_MM') INTO name, month
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'call_logs'::regclass AND c.relname ~ '^call_logs_\d{4}_\d{2}$'
      AND to_date(right(c.relname, 7), 'YYYY_MM') < first_kept
    ORDER BY 2 LIMIT 1;
    IF name IS NULL THEN
        RETURN;
    END IF;
    EXECUTE format('SELECT count(*), coalesce(sum(cost_nano_usd), 0)::bigint FROM %I', name)
        INTO row_count, cost_nano_usd;
    -- What these rows have booked to budgets, whose sums stay (`gw ledger verify`).
    EXECUTE format('SELECT json_agg(p) FROM (
        SELECT n.sum, sum(l.cost_nano_usd) AS spent,
            sum(l.cost_nano_usd - least(l.cost_nano_usd, n.held, c.least_nano_usd)) AS excess
        FROM %I l CROSS JOIN LATERAL budget_parts(l.budgets) n
        LEFT JOIN (SELECT call_id, least(min(cost_before_nano_usd), min(cost_after_nano_usd)) AS least_nano_usd
                   FROM call_log_corrections GROUP BY call_id) c ON c.call_id = l.request_id
        WHERE l.budgets IS NOT NULL GROUP BY 1) p', name) INTO carried;
    DELETE FROM call_log_rollups r
    WHERE r.bucket >= month::timestamp AT TIME ZONE 'UTC'
      AND r.bucket < (month + interval '1 month') AT TIME ZONE 'UTC';
    -- First what a span that is being added up waits for, and after it what that has made.
    DELETE FROM call_log_attributed_built b
    WHERE b.start >= month::timestamp AT TIME ZONE 'UTC'
      AND b.start < (month + interval '1 month') AT TIME ZONE 'UTC';
    DELETE FROM call_log_attributed_spans s
    WHERE s.start >= month::timestamp AT TIME ZONE 'UTC'
      AND s.start < (month + interval '1 month') AT TIME ZONE 'UTC';
    DELETE FROM call_log_attributed r
    WHERE r.bucket >= month::timestamp AT TIME ZONE 'UTC'
      AND r.bucket < (month + interval '1 month') AT TIME ZONE 'UTC';
    DELETE FROM call_log_margins m WHERE m.day >= month AND m.day < month + interval '1 month';
    -- A month that had been dropped before is made again when a row of it is written late.
    INSERT INTO call_log_dropped AS d VALUES (month, row_count, cost_nano_usd)
    ON CONFLICT ON CONSTRAINT call_log_dropped_pkey DO UPDATE SET
        row_count = d.row_count + excluded.row_count,
        cost_nano_usd = d.cost_nano_usd + excluded.cost_nano_usd, dropped_at = now();
    IF carried IS NOT NULL THEN
        LOCK TABLE call_logs IN ACCESS EXCLUSIVE MODE; -- before the rows of sums, as batches do
        UPDATE budget_sums s SET carried_spent_nano_usd = s.carried_spent_nano_usd + p.spent,
            carried_excess_nano_usd = s.carried_excess_nano_usd + p.excess
        FROM json_to_recordset(carried) AS p(sum bigint, spent bigint, excess bigint)
        WHERE s.id = p.sum;
    END IF;
    EXECUTE format('DROP TABLE %I', name);
    RETURN NEXT;
END $$;

-- Adds new rows of the log to its sums and to those of the operator's costs, whichever statement inserts them, and writes
-- their events while anyone wants these (`events_of_calls` those of changed rows). The inserting transaction holds the lock
-- of the rows' accounts (`ledger_batch`), so that no other changes these sums.
CREATE OR REPLACE FUNCTION call_logs_roll_up() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_attributed boolean;
    is_read       boolean;
BEGIN
    -- One statement, and the rows are read once: for a small batch each of these costs as much as several rows.
    WITH calls AS MATERIALIZED (
        SELECT account_id, date_bin('1 hour', created_at, '2000-01-01 00:00:00+00') AS hour, key_id, model, status,
            unit_type, error_code, channel_id, upstream_cost_nano_usd IS NULL AS is_unknown, count(*) AS requests,
            total_of(cost_nano_usd) AS cost, total_of(input_tokens) AS input, total_of(output_tokens) AS output,
            total_of(cached_tokens) AS cached, total_of(upstream_cost_nano_usd) AS upstream,
            bool_or(attribution IS NOT NULL) AS is_attributed
        FROM new_rows
        GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
    ), rolled_up AS (
        INSERT INTO call_log_rollups AS r
        SELECT n.account_id, g.hours, date_bin(g.width, n.hour, '2000-01-01 00:00:00+00'), n.key_id, n.model, n.status,
            coalesce(n.unit_type, ''), coalesce(n.error_code, ''), sum(n.requests), sum(n.cost), sum(n.input),
            sum(n.output), sum(n.cached)
        FROM calls n
        CROSS JOIN (VALUES (1::smallint, interval '1 hour'), (24::smallint, interval '1 day')) g(hours, width)
        GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
        ON CONFLICT (account_id, hours, bucket, key_id, model, status, unit_type, error_code) DO UPDATE SET
            requests = r.requests + excluded.requests,
            cost_nano_usd = r.cost_nano_usd + excluded.cost_nano_usd,
            input_tokens = r.input_tokens + excluded.input_tokens,
            output_tokens = r.output_tokens + excluded.output_tokens,
            cached_tokens = r.cached_tokens + excluded.cached_tokens
    ), added_to_margins AS (
        -- Calls of unknown cost have separate sums, under the channel's id with a blank and a question mark appended: no
        -- id has a blank.
        INSERT INTO call_log_margins AS m
        SELECT (n.hour AT TIME ZONE 'UTC')::date, n.account_id, n.model,
            coalesce(n.channel_id, '') || CASE WHEN n.is_unknown THEN ' ?' ELSE '' END, sum(n.requests),
            sum(CASE WHEN n.is_unknown THEN n.requests ELSE 0 END), sum(n.cost), coalesce(sum(n.upstream), 0)
        FROM calls n
        GROUP BY 1, 2, 3, 4
        ON CONFLICT (day, account_id, model, channel_id) DO UPDATE SET
            requests = m.requests + excluded.requests,
            unknown_costs = m.unknown_costs + excluded.unknown_costs,
            cost_nano_usd = m.cost_nano_usd + excluded.cost_nano_usd,
            upstream_cost_nano_usd = m.upstream_cost_nano_usd + excluded.upstream_cost_nano_usd
    )
    SELECT bool_or(n.is_attributed), EXISTS (SELECT FROM event_call_readers) INTO is_attributed, is_read FROM calls n;
    IF is_attributed THEN
        -- Calls that are for the same are added up first: what they are for is read once.
        INSERT INTO call_log_attributed AS r
        SELECT n.account_id, m.what, n.bucket, m.value, n.key_id, sum(n.requests), sum(n.cost_nano_usd),
            sum(n.input_tokens), sum(n.output_tokens), sum(n.cached_tokens)
        FROM (
            SELECT account_id, date_bin('1 hour', created_at, '2000-01-01 00:00:00+00') AS bucket, key_id,
                attribution::text AS said, count(*) AS requests, sum(cost_nano_usd) AS cost_nano_usd,
                sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
                sum(cached_tokens) AS cached_tokens
            FROM new_rows WHERE attribution IS NOT NULL
            GROUP BY 1, 2, 3, 4) n
        CROSS JOIN LATERAL attribution_members(n.said::json) m
        GROUP BY 1, 2, 3, 4, 5
        ON CONFLICT (account_id, what, bucket, value, key_id) DO UPDATE SET
            requests = r.requests + excluded.requests,
            cost_nano_usd = r.cost_nano_usd + excluded.cost_nano_usd,
            input_tokens = r.input_tokens + excluded.input_tokens,
            output_tokens = r.output_tokens + excluded.output_tokens,
            cached_tokens = r.cached_tokens + excluded.cached_tokens;
        -- A span that is over has sums of its own (`attributed_build`); few rows are of one.
        IF attributed_await(ARRAY(SELECT account_id FROM new_rows), (SELECT min(created_at) FROM new_rows)) THEN
            INSERT INTO call_log_attributed_spans AS r (account_id, what, key_id, hours, start, value, requests,
                cost_nano_usd, input_tokens, output_tokens, cached_tokens)
            SELECT n.account_id, m.what, k.key_id, b.hours, b.start, m.value, count(*), sum(n.cost_nano_usd),
                sum(n.input_tokens), sum(n.output_tokens), sum(n.cached_tokens)
            FROM new_rows n
            CROSS JOIN (VALUES (3, interval '3 hours'), (24, interval '1 day')) g (hours, width)
            JOIN call_log_attributed_built b ON b.hours = g.hours
                AND b.start = date_bin(g.width, n.created_at, '2000-01-01 00:00:00+00') AND b.account_id = n.account_id
                AND b.is_built
            CROSS JOIN LATERAL attribution_members(n.attribution) m
            JOIN LATERAL (VALUES (n.key_id), ('')) k (key_id) ON b.hours = 24 OR k.key_id = ''
            WHERE n.attribution IS NOT NULL
            GROUP BY 1, 2, 3, 4, 5, 6
            ON CONFLICT (account_id, what, key_id, hours, start, value) DO UPDATE SET
                requests = r.requests + excluded.requests,
                cost_nano_usd = r.cost_nano_usd + excluded.cost_nano_usd,
                input_tokens = r.input_tokens + excluded.input_tokens,
                output_tokens = r.output_tokens + excluded.output_tokens,
                cached_tokens = r.cached_tokens + excluded.cached_tokens;
        END IF;
    END IF;
    IF TG_OP = 'INSERT' AND is_read THEN
        PERFORM event_of_call(request_id, created_at) FROM new_rows ORDER BY id;
    END IF;
    RETURN NULL;
END $$;

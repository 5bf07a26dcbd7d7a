-- Subtracts changed or deleted rows from the sums of the log (`call_logs_roll_up`): those of which
-- `call_log_corrections` has a record. Of any other the sums keep what was written, so that `gw ledger verify` finds it;
-- but of a deleted row with a cost, which the sum of all entries misses, in a sealed month too.
CREATE OR REPLACE FUNCTION call_logs_take_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE call_log_rollups r
    SET requests = r.requests - o.requests, cost_nano_usd = r.cost_nano_usd - o.cost,
        input_tokens = r.input_tokens - o.input, output_tokens = r.output_tokens - o.output,
        cached_tokens = r.cached_tokens - o.cached
    FROM (SELECT account_id, g.hours, date_bin(g.width, created_at, '2000-01-01 00:00:00+00') AS bucket, key_id,
              model, status, coalesce(unit_type, '') AS unit_type, coalesce(error_code, '') AS error_code,
              count(*) AS requests, sum(cost_nano_usd) AS cost, sum(input_tokens) AS input,
              sum(output_tokens) AS output, sum(cached_tokens) AS cached
          FROM (SELECT * FROM old_rows o WHERE EXISTS (SELECT FROM call_log_corrections c
                                                       WHERE c.call_id = o.request_id AND c.row_id = o.id)
                    OR TG_OP = 'DELETE' AND o.cost_nano_usd <> 0) recorded
          CROSS JOIN (VALUES (1::smallint, interval '1 hour'), (24::smallint, interval '1 day')) g(hours, width)
          GROUP BY 1, 2, 3, 4, 5, 6, 7, 8) o
    WHERE (r.account_id, r.hours, r.bucket, r.key_id, r.model, r.status, r.unit_type, r.error_code)
        = (o.account_id, o.hours, o.bucket, o.key_id, o.model, o.status, o.unit_type, o.error_code);
    DELETE FROM call_log_rollups WHERE requests = 0 AND account_id IN (SELECT account_id FROM old_rows);
    IF EXISTS (SELECT FROM old_rows WHERE attribution IS NOT NULL) THEN
        UPDATE call_log_attributed r
        SET requests = r.requests - o.requests, cost_nano_usd = r.cost_nano_usd - o.cost,
            input_tokens = r.input_tokens - o.input, output_tokens = r.output_tokens - o.output,
            cached_tokens = r.cached_tokens - o.cached
        FROM (SELECT account_id, m.what, date_bin('1 hour', created_at, '2000-01-01 00:00:00+00') AS bucket, m.value, key_id,
                  count(*) AS requests, sum(cost_nano_usd) AS cost, sum(input_tokens) AS input,
                  sum(output_tokens) AS output, sum(cached_tokens) AS cached
              FROM (SELECT * FROM old_rows o WHERE EXISTS (SELECT FROM call_log_corrections c
                                                           WHERE c.call_id = o.request_id AND c.row_id = o.id)
                        OR TG_OP = 'DELETE' AND o.cost_nano_usd <> 0) recorded
              CROSS JOIN LATERAL attribution_members(recorded.attribution) m
              GROUP BY 1, 2, 3, 4, 5) o
        WHERE (r.account_id, r.what, r.bucket, r.value, r.key_id) = (o.account_id, o.what, o.bucket, o.value, o.key_id);
        DELETE FROM call_log_attributed r
        USING old_rows o
        CROSS JOIN LATERAL attribution_members(o.attribution) m
        WHERE (r.account_id, r.what, r.bucket, r.value, r.key_id) = (o.account_id, m.what,
                date_bin('1 hour', o.created_at, '2000-01-01 00:00:00+00'), m.value, o.key_id)
            AND r.requests = 0;
        IF attributed_await(ARRAY(SELECT account_id FROM old_rows), (SELECT min(created_at) FROM old_rows)) THEN
            UPDATE call_log_attributed_spans r
            SET requests = r.requests - o.requests, cost_nano_usd = r.cost_nano_usd - o.cost,
                input_tokens = r.input_tokens - o.input, output_tokens = r.output_tokens - o.output,
                cached_tokens = r.cached_tokens - o.cached
            FROM (SELECT recorded.account_id, m.what, k.key_id, b.hours, b.start, m.value, count(*) AS requests,
                      sum(cost_nano_usd) AS cost, sum(input_tokens) AS input, sum(output_tokens) AS output,
                      sum(cached_tokens) AS cached
                  FROM (SELECT * FROM old_rows o WHERE EXISTS (SELECT FROM call_log_corrections c
                                                               WHERE c.call_id = o.request_id AND c.row_id = o.id)
                            OR TG_OP = 'DELETE' AND o.cost_nano_usd <> 0) recorded
                  CROSS JOIN (VALUES (3, interval '3 hours'), (24, interval '1 day')) g (hours, width)
                  JOIN call_log_attributed_built b ON b.hours = g.hours
                      AND b.start = date_bin(g.width, created_at, '2000-01-01 00:00:00+00')
                      AND b.account_id = recorded.account_id AND b.is_built
                  CROSS JOIN LATERAL attribution_members(recorded.attribution) m
                  CROSS JOIN LATERAL (VALUES (recorded.key_id), ('')) k (key_id)
                  GROUP BY 1, 2, 3, 4, 5, 6) o
            WHERE (r.account_id, r.what, r.key_id, r.hours, r.start, r.value)
                = (o.account_id, o.what, o.key_id, o.hours, o.start, o.value);
            DELETE FROM call_log_attributed_spans r
            USING old_rows o
            CROSS JOIN LATERAL attribution_members(o.attribution) m
            WHERE r.account_id = o.account_id AND r.what = m.what AND r.value = m.value AND r.key_id IN (o.key_id, '')
                AND r.hours IN (3, 24) AND r.start <= o.created_at AND r.start > o.created_at - interval '1 day'
                AND r.requests = 0;
        END IF;
    END IF;
    RETURN NULL;
END $$;

-- What makes the call log quick to add up: sums per hour and day, written with its rows.

-- The same rows counted twice, by hour and by day of UTC; `hours` says which. Every combination of
-- what can be filtered by is a row of its own, so a bucket also tells whether looking into it is
-- worth while. '' stands for null.
CREATE TABLE call_log_rollups (
    account_id    text NOT NULL,
    hours         smallint NOT NULL,  -- 1, 24
    bucket        timestamptz NOT NULL,
    key_id        text NOT NULL,
    model         text NOT NULL,
    status        text NOT NULL,
    unit_type     text NOT NULL,
    error_code    text NOT NULL,
    requests      bigint NOT NULL,
    cost_nano_usd bigint NOT NULL,
    input_tokens  bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    PRIMARY KEY (account_id, hours, bucket, key_id, model, status, unit_type, error_code)
) WITH (fillfactor = 70);  -- the sums of the present hour and day change all the time

-- A row cannot come into the log without being counted, whichever statement writes it. Who inserts
-- holds the lock of the rows' accounts (`ledger_apply`), so nobody else is at these sums.
CREATE FUNCTION call_logs_roll_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO call_log_rollups AS r
    SELECT n.account_id, g.hours, date_bin(g.width, n.created_at, '2000-01-01 00:00:00+00'), n.key_id,
        n.model, n.status, coalesce(n.unit_type, ''), coalesce(n.error_code, ''), count(*),
        sum(n.cost_nano_usd), sum(n.input_tokens), sum(n.output_tokens), sum(n.cached_tokens)
    FROM new_rows n
    CROSS JOIN (VALUES (1::smallint, interval '1 hour'), (24::smallint, interval '1 day')) g(hours, width)
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
    ON CONFLICT (account_id, hours, bucket, key_id, model, status, unit_type, error_code) DO UPDATE SET
        requests = r.requests + excluded.requests,
        cost_nano_usd = r.cost_nano_usd + excluded.cost_nano_usd,
        input_tokens = r.input_tokens + excluded.input_tokens,
        output_tokens = r.output_tokens + excluded.output_tokens,
        cached_tokens = r.cached_tokens + excluded.cached_tokens;
    RETURN NULL;
END $$;

CREATE TRIGGER call_logs_roll_up AFTER INSERT ON call_logs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_roll_up();

-- Rows that are changed or taken out leave the sums of the log as they came (`call_logs_roll_up`).
CREATE FUNCTION call_logs_take_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE call_log_rollups r
    SET requests = r.requests - o.requests, cost_nano_usd = r.cost_nano_usd - o.cost,
        input_tokens = r.input_tokens - o.input, output_tokens = r.output_tokens - o.output,
        cached_tokens = r.cached_tokens - o.cached
    FROM (SELECT account_id, g.hours, date_bin(g.width, created_at, '2000-01-01 00:00:00+00') AS bucket, key_id,
              model, status, coalesce(unit_type, '') AS unit_type, coalesce(error_code, '') AS error_code,
              count(*) AS requests, sum(cost_nano_usd) AS cost, sum(input_tokens) AS input,
              sum(output_tokens) AS output, sum(cached_tokens) AS cached
          FROM old_rows
          CROSS JOIN (VALUES (1::smallint, interval '1 hour'), (24::smallint, interval '1 day')) g(hours, width)
          GROUP BY 1, 2, 3, 4, 5, 6, 7, 8) o
    WHERE (r.account_id, r.hours, r.bucket, r.key_id, r.model, r.status, r.unit_type, r.error_code)
        = (o.account_id, o.hours, o.bucket, o.key_id, o.model, o.status, o.unit_type, o.error_code);
    DELETE FROM call_log_rollups WHERE requests = 0 AND account_id IN (SELECT account_id FROM old_rows);
    RETURN NULL;
END $$;

CREATE TRIGGER call_logs_roll_up_changed AFTER UPDATE ON call_logs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_roll_up();
CREATE TRIGGER call_logs_take_back_changed AFTER UPDATE ON call_logs
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back();
CREATE TRIGGER call_logs_take_back_removed AFTER DELETE ON call_logs
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back();

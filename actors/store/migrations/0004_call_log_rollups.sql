-- What makes the call log quick to ask: sums per hour and day, and an index for each filter.

-- The same rows counted twice, by hour and by day of UTC; `hours` says which. Every combination of
-- what can be filtered by is a row of its own, so a bucket also tells whether looking into it is
-- worth while. '' stands for null.
CREATE TABLE call_log_rollups (
    account_id    text NOT NULL,
    hours         smallint NOT NULL CHECK (hours IN (1, 24)),
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

-- Each filter has its rows in the order of a page. All but the first hold few rows of an ordinary
-- account, and cost nothing where a call succeeds and is billed by tokens.
CREATE INDEX call_logs_of_model ON call_logs (account_id, model, created_at, id);
CREATE INDEX call_logs_of_status ON call_logs (account_id, status, created_at, id) WHERE status <> 'success';
CREATE INDEX call_logs_of_error_code ON call_logs (account_id, error_code, created_at, id)
    WHERE error_code IS NOT NULL;
CREATE INDEX call_logs_of_unit_type ON call_logs (account_id, unit_type, created_at, id)
    WHERE unit_type IS NOT NULL;
CREATE INDEX call_logs_of_task ON call_logs (task_id) WHERE task_id IS NOT NULL;

-- A row as the call-log API reads it. `detail` is left out: it names channels.
CREATE VIEW call_log_rows AS
SELECT l.id, l.created_at, l.submitted_at, l.account_id, l.key_id, k.name AS key_name, k.prefix AS key_prefix,
    l.request_id, l.model, l.status, l.error_code, l.error_message, l.input_tokens, l.output_tokens,
    l.cached_tokens, l.unit_count, l.unit_type, l.cost_nano_usd, l.latency_ms, l.task_id, l.result_urls,
    l.result_expires_at, l.attempts
FROM call_logs l LEFT JOIN keys k ON k.id = l.key_id;

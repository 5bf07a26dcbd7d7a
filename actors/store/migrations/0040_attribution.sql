-- For whom calls are made, as their clients say: end user, session, run and labels.

-- The key of the digests of end users' names, sealed with the gateway's secret. One row, made by the first process.
CREATE TABLE end_user_key (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    sealed  bytea NOT NULL
);

-- The values that rows of a UTC day may have, and how many there are: any other is stored as `other`. what: `end_user`,
-- `session`, `run`, or `label.` and its key. Changed under the lock of the account, so that no process admits too many.
CREATE TABLE attribution_values (
    account_id text NOT NULL,
    day        date NOT NULL,
    what       text NOT NULL,
    value      text NOT NULL,
    PRIMARY KEY (account_id, day, what, value)
);

CREATE TABLE attribution_counts (
    account_id text NOT NULL,
    day        date NOT NULL,
    what       text NOT NULL,
    stored     integer NOT NULL,
    PRIMARY KEY (account_id, day, what)
) WITH (fillfactor = 70);

-- Rows of the log added up by what they have of these, by hour and by day of UTC, written with them as
-- `call_log_rollups` is. A row counts once for each.
CREATE TABLE call_log_attributed (
    account_id    text NOT NULL,
    hours         smallint NOT NULL,  -- 1, 24
    what          text NOT NULL,
    bucket        timestamptz NOT NULL,
    value         text NOT NULL,
    key_id        text NOT NULL,
    requests      bigint NOT NULL,
    cost_nano_usd bigint NOT NULL,
    input_tokens  bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    PRIMARY KEY (account_id, hours, what, bucket, value, key_id)
) WITH (fillfactor = 70);

-- Null: its client said nothing, as of every row that is there. A column without a default changes no row; writers of
-- the log wait while the lock is waited for, 0.3 s of every 2.3.
DO $$
BEGIN
    FOR attempt IN 1..600 LOOP
        BEGIN
            SET LOCAL lock_timeout = '300ms';
            LOCK TABLE call_logs IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 600 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(2);
        END;
    END LOOP;
    SET LOCAL lock_timeout = 0;
    ALTER TABLE call_logs ADD COLUMN attribution json;  -- {end_user, session, run, labels: {key: value}}
END $$;

CREATE OR REPLACE VIEW call_log_rows AS
SELECT l.id, l.created_at, l.submitted_at, l.account_id, l.key_id, k.name AS key_name, k.prefix AS key_prefix,
    l.request_id, l.model, l.status, l.error_code, l.error_message, l.input_tokens, l.output_tokens,
    l.cached_tokens, l.unit_count, l.unit_type, l.cost_nano_usd, l.latency_ms, l.task_id, l.result_urls,
    l.result_expires_at, l.attempts, l.attribution
FROM call_logs l LEFT JOIN keys k ON k.id = l.key_id;

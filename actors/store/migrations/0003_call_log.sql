-- The call log: its rows, kept by month, an index for each filter, and what was changed in it or dropped from it.

CREATE SEQUENCE call_logs_id AS bigint;

-- One row per external call, written once at its end. Partitioned by month of that instant.
CREATE TABLE call_logs (
    id                bigint NOT NULL DEFAULT nextval('call_logs_id'),
    created_at        timestamptz NOT NULL,
    submitted_at      timestamptz NOT NULL,
    account_id        text NOT NULL,
    key_id            text NOT NULL,
    request_id        uuid NOT NULL,
    protocol          text NOT NULL,
    model             text NOT NULL,
    status            text NOT NULL,
    error_code        text,
    error_message     text,
    input_tokens      bigint NOT NULL DEFAULT 0,
    output_tokens     bigint NOT NULL DEFAULT 0,
    cached_tokens     bigint NOT NULL DEFAULT 0,
    unit_count        integer,
    unit_type         text,
    cost_nano_usd     bigint NOT NULL DEFAULT 0,
    latency_ms        bigint NOT NULL,
    task_id           text,
    result_urls       json,
    result_expires_at timestamptz,
    attempts          json,            -- the failed internal ones; null: none
    detail            json             -- what was decided and why, for the receipt
) PARTITION BY RANGE (created_at);

-- (request_id, created_at) makes a repeated write of the same row a no-op and serves look-ups by trace id.
CREATE UNIQUE INDEX call_logs_once ON call_logs (request_id, created_at);
CREATE INDEX call_logs_by_id ON call_logs (id);
CREATE INDEX call_logs_of_account ON call_logs (account_id, created_at, id);
CREATE INDEX call_logs_of_key ON call_logs (key_id, created_at, id);

-- Catches a row whose month has no partition yet, so that a settlement can never fail for it.
CREATE TABLE call_logs_default PARTITION OF call_logs DEFAULT;

-- Makes the partitions of so many months, and of every month that has rows in the default one, which move.
--
-- Nobody who settles a call waits for it: a table is made apart and attached, which on the parent needs
-- a lock that inserts do not mind. The default partition alone is closed for a moment, for its rows may
-- belong to the new month. A reader of the whole log may hold that lock for long, so the wait is bounded
-- and the work is tried again later; until then the default partition takes what comes.
--
-- Rows move below the parent's triggers: they have been counted when they came (`call_logs_roll_up`).
CREATE FUNCTION call_logs_make_partitions(p_first date, p_months integer) RETURNS integer LANGUAGE plpgsql
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

-- Every row of the call log that was changed or taken out after it was written, as it was before. Append-only.
--
-- cause  settled_after_recovery   the call was answered: its true settlement came after recovery's
--        refused_after_recovery   the call was refused: its hold had been granted when nobody waited for it
--        duplicate_row            a second row of one call, taken out by `gw ledger repair`
CREATE TYPE correction_cause AS ENUM ('settled_after_recovery', 'refused_after_recovery', 'duplicate_row');

CREATE TABLE call_log_corrections (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    call_id              uuid NOT NULL,
    account_id           text NOT NULL,
    cause                correction_cause NOT NULL,
    corrected_at         timestamptz NOT NULL DEFAULT now(),
    corrected_by         text NOT NULL,          -- a process; of a repair, the operator
    row_id               bigint NOT NULL,        -- of the row below
    row_before           json NOT NULL,
    cost_before_nano_usd bigint NOT NULL,        -- what the call's entries came to
    cost_after_nano_usd  bigint NOT NULL,        -- what they come to now
    booked_nano_usd      bigint                  -- amount of the entry of kind `correction`; null: none
);

CREATE INDEX call_log_corrections_of_call ON call_log_corrections (call_id);
-- A call is corrected by its settlement once; a third settlement finds this.
CREATE UNIQUE INDEX call_log_corrections_once ON call_log_corrections (call_id) WHERE cause <> 'duplicate_row';

CREATE FUNCTION call_log_corrections_are_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'corrections of the call log are append-only';
END $$;

CREATE TRIGGER call_log_corrections_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON call_log_corrections
    FOR EACH STATEMENT EXECUTE FUNCTION call_log_corrections_are_append_only();

-- Months of the call log that are no longer kept, and what their calls had cost: their entries stay,
-- so `gw ledger verify` can prove that what has no row any more is what was dropped and nothing else.
CREATE TABLE call_log_dropped (
    month         date PRIMARY KEY,
    row_count     bigint NOT NULL,
    cost_nano_usd bigint NOT NULL,
    dropped_at    timestamptz NOT NULL DEFAULT now()
);

-- Drops the oldest month that lies before p_first_kept, with its sums, and returns it; nothing when
-- there is none. One month for each transaction, and the one lock that settlements mind comes last
-- and is waited for a fifth of a second at most: on a time-out nothing has happened.
CREATE FUNCTION call_logs_drop_month(p_first_kept date)
RETURNS TABLE (month date, row_count bigint, cost_nano_usd bigint) LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
DECLARE
    -- By this server's clock too: a gateway whose clock is ahead must not drop what is young.
    first_kept date := least(p_first_kept, date_trunc('month', now() AT TIME ZONE 'UTC')::date);
    name       text;
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
    DELETE FROM call_log_rollups r
    WHERE r.bucket >= month::timestamp AT TIME ZONE 'UTC'
      AND r.bucket < (month + interval '1 month') AT TIME ZONE 'UTC';
    -- A month that had been dropped before comes back when a row of it is written late.
    INSERT INTO call_log_dropped AS d VALUES (month, row_count, cost_nano_usd)
    ON CONFLICT ON CONSTRAINT call_log_dropped_pkey DO UPDATE SET
        row_count = d.row_count + excluded.row_count,
        cost_nano_usd = d.cost_nano_usd + excluded.cost_nano_usd, dropped_at = now();
    EXECUTE format('DROP TABLE %I', name);
    RETURN NEXT;
END $$;

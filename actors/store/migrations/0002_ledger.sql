-- The ledger: append-only entries, open holds, the call log, and the processes that own live calls.
-- No foreign keys on the tables that every call writes: `gw ledger verify` proves the same thing
-- without a lookup per row.

CREATE TYPE entry_kind AS ENUM ('topup', 'trial', 'hold', 'settle', 'refund');

CREATE TABLE entries (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id      text NOT NULL,
    key_id          text,
    call_id         uuid,
    kind            entry_kind NOT NULL,
    amount_nano_usd bigint NOT NULL,   -- effect on the balance
    held_nano_usd   bigint NOT NULL,   -- effect on what is held
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT entries_effects CHECK (
        CASE kind
            WHEN 'hold' THEN amount_nano_usd = 0 AND held_nano_usd >= 0
            WHEN 'settle' THEN amount_nano_usd <= 0 AND held_nano_usd <= 0
            WHEN 'refund' THEN amount_nano_usd = 0 AND held_nano_usd <= 0
            ELSE amount_nano_usd > 0 AND held_nano_usd = 0
        END),
    CONSTRAINT entries_call CHECK ((kind IN ('topup', 'trial')) = (call_id IS NULL))
);

CREATE UNIQUE INDEX entries_one_hold_per_call ON entries (call_id) WHERE kind = 'hold';
CREATE UNIQUE INDEX entries_one_resolution_per_call ON entries (call_id) WHERE kind IN ('settle', 'refund');

CREATE FUNCTION entries_are_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'ledger entries are append-only';
END $$;

CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only();

-- One row per call under way. `call` is what recovery needs to write the terminal row of a call
-- whose process died; `delivered` is what that process last said it had delivered, priced.
CREATE TABLE holds (
    call_id         uuid PRIMARY KEY,
    account_id      text NOT NULL,
    key_id          text NOT NULL,
    process_id      text NOT NULL,
    amount_nano_usd bigint NOT NULL CHECK (amount_nano_usd >= 0),
    created_at      timestamptz NOT NULL DEFAULT now(),
    call            json NOT NULL,
    delivered       json
) WITH (fillfactor = 70);

CREATE TABLE processes (
    id           text PRIMARY KEY,
    host         text NOT NULL,
    boot_id      text NOT NULL,
    pid          integer NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now()
);

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
    status            text NOT NULL CHECK (status IN ('success', 'error', 'interrupted', 'rejected')),
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
    detail            json,            -- what was decided and why, for the receipt
    CONSTRAINT call_logs_rejected_is_free CHECK (status <> 'rejected' OR cost_nano_usd = 0)
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

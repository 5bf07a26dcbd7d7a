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
    detail            json,            -- what was decided and why, for the receipt
    upstream_cost_nano_usd bigint,     -- null: not known
    channel_id        text,            -- the last one tried; null: none
    digest            bigint,          -- of the row's content, written with it
    attribution       json,            -- {end_user, session, run, labels: {key: value}}; null: its client said nothing
    budgets           bigint[]         -- the sums of its nodes: {sum, held, sum, held, …}; null: none
) PARTITION BY RANGE (created_at);

-- (request_id, created_at) makes a repeated write of the same row a no-op and serves look-ups by trace id.
CREATE UNIQUE INDEX call_logs_once ON call_logs (request_id, created_at);
CREATE INDEX call_logs_by_id ON call_logs (id);
CREATE INDEX call_logs_of_account ON call_logs (account_id, created_at, id);
CREATE INDEX call_logs_of_key ON call_logs (key_id, created_at, id);

-- Catches a row whose month has no partition yet, so that a settlement can never fail for it.
CREATE TABLE call_logs_default PARTITION OF call_logs DEFAULT;

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
    l.result_expires_at, l.attempts, l.attribution
FROM call_logs l LEFT JOIN keys k ON k.id = l.key_id;

-- Every row of the call log that was changed or taken out after it was written, as it was before. Append-only.
--
-- cause  settled_after_recovery   the call was answered: its true settlement came after recovery's
--        refused_after_recovery   the call was refused: its hold had been granted after its caller had left
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

-- What makes the call log quick to add up: sums per hour and day, written with its rows.

-- The same rows counted twice, by hour and by day of UTC; `hours` says which. Every combination of
-- what can be filtered by is a row of its own, so a bucket also shows whether it is worth
-- reading. '' stands for null.
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

CREATE TRIGGER call_logs_roll_up AFTER INSERT ON call_logs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_roll_up();

CREATE TRIGGER call_logs_roll_up_changed AFTER UPDATE ON call_logs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_roll_up();
CREATE TRIGGER call_logs_take_back_changed AFTER UPDATE ON call_logs
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back();
CREATE TRIGGER call_logs_take_back_removed AFTER DELETE ON call_logs
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back();

-- What calls cost the operator beside what their clients pay: the same rows added up by day of UTC and by the channel that
-- served them. channel_id: '' for none.
CREATE TABLE call_log_margins (
    day                    date NOT NULL,
    account_id             text NOT NULL,
    model                  text NOT NULL,
    channel_id             text NOT NULL,
    requests               bigint NOT NULL,
    unknown_costs          bigint NOT NULL,  -- of those requests
    cost_nano_usd          bigint NOT NULL,
    upstream_cost_nano_usd bigint NOT NULL,  -- as far as it is known
    PRIMARY KEY (day, account_id, model, channel_id)
) WITH (fillfactor = 70);

CREATE TRIGGER call_logs_take_back_margins_changed AFTER UPDATE ON call_logs
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back_margins();
CREATE TRIGGER call_logs_take_back_margins_removed AFTER DELETE ON call_logs
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back_margins();

-- New rows have their events written with their sums.
CREATE TRIGGER call_logs_settled_anew AFTER UPDATE ON call_logs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION events_of_calls();

-- The sum of integers as an integer: exact, in a third of the time of `sum`, whose result is a numeric. It raises an error
-- beyond 64 bits, which is nine thousand million USD.
CREATE AGGREGATE total_of (bigint) (SFUNC = int8pl, STYPE = bigint, COMBINEFUNC = int8pl, PARALLEL = SAFE);

-- What a call is corrected with when it was settled for a process that was not dead after all, and what its
-- row was before. A new value of an enum cannot be used in the transaction that adds it: the functions that
-- write these tables are the next migration's.

ALTER TYPE entry_kind ADD VALUE 'correction';

-- `pid_started` tells a process from another that was given its pid later (field 22 of /proc/PID/stat, clock
-- ticks since the boot); 0: not known. A process that was declared dead keeps its row, and may hold no more
-- money under this id, until its calls are settled.
ALTER TABLE processes
    ADD pid_started bigint NOT NULL DEFAULT 0,
    ADD buried_at   timestamptz,
    ADD buried_by   text;

-- Calls that were settled by another than the process that served them. Their true settlement may still come.
CREATE TABLE recovered_calls (
    call_id      uuid PRIMARY KEY,
    account_id   text NOT NULL,
    process_id   text NOT NULL,                  -- that served the call
    recovered_by text NOT NULL,                  -- process that settled it
    recovered_at timestamptz NOT NULL DEFAULT now(),
    wrote_row    boolean NOT NULL                -- false: the call had its row already
);

-- A true settlement, or the row of a refusal, may be on its way for what was recovered lately.
INSERT INTO recovered_calls (call_id, account_id, process_id, recovered_by, recovered_at, wrote_row)
SELECT DISTINCT ON (request_id) request_id, account_id, '', '', created_at, true FROM call_logs
WHERE created_at > now() - interval '1 day' AND status = 'interrupted' AND error_code = 'gateway_restarted';

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

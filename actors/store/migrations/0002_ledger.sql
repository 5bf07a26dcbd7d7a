-- The ledger: append-only entries, open holds, and the processes that own live calls. No foreign keys on the tables
-- that every call writes: `gw ledger verify` proves the same thing without a lookup per row.

CREATE TYPE entry_kind AS ENUM ('topup', 'trial', 'hold', 'settle', 'refund', 'correction');

CREATE TABLE entries (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id      text NOT NULL,
    key_id          text,
    call_id         uuid,
    kind            entry_kind NOT NULL,
    amount_nano_usd bigint NOT NULL,   -- effect on the balance
    held_nano_usd   bigint NOT NULL,   -- effect on what is held
    created_at      timestamptz NOT NULL DEFAULT now()
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
--
-- A hold belongs to the process that serves its call and is settled when that dies; or, once `process_id` is null, to
-- the job that the call began (`job_hand_over`), which outlives every process and is ended by any.
CREATE TABLE holds (
    call_id         uuid PRIMARY KEY,
    account_id      text NOT NULL,
    key_id          text NOT NULL,
    process_id      text,
    amount_nano_usd bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    call            json NOT NULL,
    delivered       json,
    job_id          text              -- null: the call ends with its answer
) WITH (fillfactor = 70);

-- What calls began that go on after their answers, made in the transaction that holds the money. A job is open as long
-- as the hold of its call is.
CREATE TABLE jobs (
    id         text PRIMARY KEY,
    call_id    uuid NOT NULL UNIQUE,
    account_id text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- `pid_started` tells a process from another that was given its pid later (field 22 of /proc/PID/stat, clock
-- ticks since the boot); 0: not known. A process that was declared dead keeps its row, and may hold no more
-- money under this id, until its calls are settled.
CREATE TABLE processes (
    id           text PRIMARY KEY,
    host         text NOT NULL,
    boot_id      text NOT NULL,
    pid          integer NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT now(),
    heartbeat_at timestamptz NOT NULL DEFAULT now(),
    pid_started  bigint NOT NULL DEFAULT 0,
    buried_at    timestamptz,
    buried_by    text
);

-- Calls that were settled by another than the process that served them. Their true settlement may still come.
CREATE TABLE recovered_calls (
    call_id      uuid PRIMARY KEY,
    account_id   text NOT NULL,
    process_id   text NOT NULL,                  -- that served the call
    recovered_by text NOT NULL,                  -- process that settled it
    recovered_at timestamptz NOT NULL DEFAULT now(),
    wrote_row    boolean NOT NULL                -- false: the call had its row already
);

-- Declares a process dead and returns whether it is. `p_heartbeat`: only if it has not beaten since; null: in any
-- case. The lock is that of the process's own batches: one that is under way ends before, and its holds are seen.
CREATE FUNCTION process_bury(p_id text, p_by text, p_heartbeat timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_id, 0));
    UPDATE processes SET buried_at = now(), buried_by = p_by
    WHERE id = p_id AND buried_at IS NULL AND (p_heartbeat IS NULL OR heartbeat_at = p_heartbeat);
    RETURN EXISTS (SELECT FROM processes WHERE id = p_id AND buried_at IS NOT NULL);
END $$;

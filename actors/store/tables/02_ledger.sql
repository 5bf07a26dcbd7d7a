-- The ledger: append-only entries, open holds, and the processes that own live calls. No foreign keys on the tables
-- that every call writes: `gw ledger verify` proves the same thing without a lookup per row.

CREATE TYPE entry_kind AS ENUM ('topup', 'trial', 'hold', 'settle', 'refund', 'correction');

CREATE SEQUENCE entries_id AS bigint;

-- Kept by month, as the call log is. No index holds over all months: what makes a settlement happen once is the row in
-- `holds` that it deletes.
CREATE TABLE entries (
    id              bigint NOT NULL DEFAULT nextval('entries_id'),
    account_id      text NOT NULL,
    key_id          text,
    call_id         uuid,
    kind            entry_kind NOT NULL,
    amount_nano_usd bigint NOT NULL,   -- effect on the balance
    held_nano_usd   bigint NOT NULL,   -- effect on what is held
    created_at      timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (created_at);

-- Catches an entry whose month has no table yet, so that a settlement can never fail for it. As `entries_new_table` makes
-- them. An entry is guarded against its repetition by its call, or else by its id: an index of the ids of all was a
-- twentieth of what a call costs here, and nothing looks there.
CREATE TABLE entries_default PARTITION OF entries DEFAULT;
CREATE UNIQUE INDEX entries_default_one_booking ON entries_default (id) WHERE call_id IS NULL;
CREATE UNIQUE INDEX entries_default_one_hold ON entries_default (call_id) WHERE kind = 'hold';
CREATE UNIQUE INDEX entries_default_one_resolution ON entries_default (call_id) WHERE kind IN ('settle', 'refund');

-- For the pages of accounts: what they were given, and corrections by operators, few rows of many, so that a call's
-- entries leave these alone.
CREATE INDEX entries_credits ON entries (account_id, created_at, id) WHERE kind IN ('topup', 'trial');
CREATE INDEX entries_corrections ON entries (account_id, created_at, id) WHERE kind = 'correction' AND call_id IS NULL;

CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only();
CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries_default
    FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only();

-- The months of entries. `name`: its table; `ends_at`: its entries are older than this instant, and not older than the end
-- of the month before it.
--
-- Each month that has ended gets a checkpoint: the sums of its entries, and copies of those that later ones may refer to.
-- `gw ledger verify` writes it in the transaction in which it found no fault, and begins at the last one; a month may be
-- dropped once it has its checkpoint.
CREATE TABLE entry_months (
    ends_at    timestamptz PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    sealed_at  timestamptz,              -- its checkpoint was written
    entries    bigint,                   -- it had then
    dropped_at timestamptz
);

-- The sums of the entries of a sealed month. Balance and spending are the sums of all sealed months and of the entries
-- since. key_id: '' for none.
CREATE TABLE checkpoint_sums (
    ends_at         timestamptz NOT NULL,
    account_id      text NOT NULL,
    key_id          text NOT NULL,
    entries         bigint NOT NULL,
    amount_nano_usd bigint NOT NULL,
    held_nano_usd   bigint NOT NULL,
    PRIMARY KEY (ends_at, account_id, key_id)
);

-- Copies of entries up to the end of a sealed month that later ones refer to or may: the holds that were open then, and
-- all entries of calls that recovery settled or a correction changed. Those of months before the last dropped one go.
CREATE TABLE checkpoint_entries (
    ends_at         timestamptz NOT NULL,
    id              bigint NOT NULL,
    account_id      text NOT NULL,
    key_id          text,
    call_id         uuid NOT NULL,
    kind            entry_kind NOT NULL,
    amount_nano_usd bigint NOT NULL,
    held_nano_usd   bigint NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (ends_at, id)
);

CREATE TRIGGER checkpoint_sums_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON checkpoint_sums
    FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only();
CREATE TRIGGER checkpoint_entries_never_change BEFORE UPDATE OR TRUNCATE ON checkpoint_entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only();

-- One row per call under way. `call` is what recovery needs to write the terminal row of a call whose process died;
-- `delivered` is what that process last reported as delivered, priced.
--
-- A hold belongs to the process that serves its call and is settled when that dies; or, once `process_id` is null, to the
-- job that the call began (`job_accept`), which outlives every process and is ended by any.
--
-- The heartbeat changes the hold of an open stream once a second. With this much room on its page the new version needs no
-- new entries in the indexes: of 2,000 streams 96 of 100 changes and not 76.
CREATE TABLE holds (
    call_id         uuid PRIMARY KEY,
    account_id      text NOT NULL,
    key_id          text NOT NULL,
    process_id      text,
    amount_nano_usd bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    call            json NOT NULL,
    delivered       json,
    job_id          text,             -- null: the call ends with its answer
    budgets         bigint[]          -- the sums of its nodes: {sum, held, sum, held, …}; null: none
) WITH (fillfactor = 45);

CREATE INDEX holds_of_process ON holds (process_id) WHERE process_id IS NOT NULL;

-- `pid_started` distinguishes a process from another that got its pid later (field 22 of /proc/PID/stat, clock
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
    buried_by    text,
    batch        bigint NOT NULL DEFAULT 0    -- the number of its last batch that may not be applied twice
);

-- What processes have leased of an account's balance, out of which they admit calls in memory. `amount_nano_usd` stays as
-- calls are written, as long as the balance covers both; a lease ends with the row of its process. `called_at`: since when
-- it is called back; it is until it is gone, so that its process learns of it by its next heartbeat, too.
CREATE TABLE leases (
    process_id      text NOT NULL,
    account_id      text NOT NULL,
    amount_nano_usd bigint NOT NULL,
    called_at       timestamptz,
    PRIMARY KEY (process_id, account_id)
);

CREATE INDEX leases_of_account ON leases (account_id);
CREATE INDEX leases_called ON leases (process_id) WHERE called_at IS NOT NULL;

CREATE TRIGGER processes_end_leases AFTER DELETE ON processes FOR EACH ROW EXECUTE FUNCTION leases_end();

-- Calls that were settled by another than the process that served them. Their true settlement may still come.
CREATE TABLE recovered_calls (
    call_id      uuid PRIMARY KEY,
    account_id   text NOT NULL,
    process_id   text NOT NULL,                  -- that served the call
    recovered_by text NOT NULL,                  -- process that settled it
    recovered_at timestamptz NOT NULL DEFAULT now(),
    wrote_row    boolean NOT NULL                -- false: the call had its row already
);

-- When `gw ledger verify` ran last, for the gateways' metrics: one row.
CREATE TABLE ledger_proofs (
    is_last   boolean     PRIMARY KEY DEFAULT true CHECK (is_last),
    proved_at timestamptz NOT NULL,
    faults    integer     NOT NULL CHECK (faults >= 0),
    report    json                               -- what it found, beside how many rows were off
);

-- Settlements, and rows of refused calls, that the ledger refused for what they say: kept until an operator books them.
-- `message` is what `actors/wallet/quarantine.py` encodes; it is not text, so that nothing in it is refused here, too.
-- `booked_as` says how: whole; shortened to what the cost depends on; or that the call had been settled before.
CREATE TABLE quarantine (
    call_id        uuid PRIMARY KEY,
    account_id     text NOT NULL,
    key_id         text NOT NULL,
    cost_nano_usd  bigint NOT NULL,
    is_recovery    boolean NOT NULL,
    error          text NOT NULL,
    message        bytea NOT NULL,
    quarantined_at timestamptz NOT NULL DEFAULT now(),
    booked_at      timestamptz,
    booked_by      text,
    booked_as      text
);

CREATE INDEX quarantine_unbooked ON quarantine (quarantined_at) WHERE booked_at IS NULL;

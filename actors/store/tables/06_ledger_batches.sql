-- A batch of the ledger (`ledger_batch`). Every call pays for it twice, hence rows of a type instead of JSON objects, which
-- take four times as long to read.

-- An account, and what this batch may take from it at most: its holds, and the cost of its settlements.
CREATE TYPE ledger_account AS (id text, needed bigint);

-- The same of a key, and its cap.
CREATE TYPE ledger_key AS (id text, needed bigint, cap bigint);

-- How a call ended. Without a status no row is written: its caller writes its own.
CREATE TYPE ledger_settlement AS (
    call_id       uuid,
    cost          non_negative,
    created_at    double precision,  -- Unix seconds
    submitted_at  double precision,
    protocol      text,
    model         text,
    status        row_status,
    input_tokens  bigint,
    output_tokens bigint,
    cached_tokens bigint,
    latency_ms    bigint,
    upstream_cost bigint,
    channel_id    text,
    attribution   json,
    rare          json    -- {error_code, error_message, unit_count, unit_type, task_id, result_urls,
                          --  result_expires_at, attempts, served}: those that are not null; null: all are
);

CREATE TYPE ledger_hold AS (
    seq        integer,
    call_id    uuid,
    account_id text,
    key_id     text,
    amount     non_negative,
    cap        bigint     -- of the key; null: none
);

-- The hold of a call that ended before it was written.
CREATE TYPE ledger_admitted AS (account_id text, key_id text, amount non_negative);

-- A change of the process's lease of an account; one that would be smaller than `least` is not made. Negative: it goes
-- back.
CREATE TYPE ledger_lease AS (account_id text, change bigint, least bigint);

-- What a sum of a budget is moved by, of many calls together. needed: of calls admitted in memory, what they hold, or have
-- cost; the limit must cover it beside the leases.
CREATE TYPE budget_move AS (sum bigint, needed bigint, spent bigint, held bigint, excess bigint);

-- A settlement that is to be booked: its cost, and the nodes that have its hold.
CREATE TYPE budget_charge AS (cost bigint, budgets bigint[]);

-- What was written: the calls that were settled, [[account, balance, held]] of the accounts that it changed, and what of
-- its nodes is left to be booked (null: nothing).
CREATE TYPE ledger_written AS (settled uuid[], accounts json, budgets budget_charge[]);

-- A batch of the ledger (`ledger_apply`). Every call pays for it twice, hence rows of a type instead of JSON objects, which
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
    has_detail    boolean,
    rare          json    -- {error_code, error_message, unit_count, unit_type, task_id, result_urls,
                          --  result_expires_at, attempts}: those that are not null
);

CREATE TYPE ledger_hold AS (
    seq        integer,
    call_id    uuid,
    account_id text,
    key_id     text,
    amount     non_negative,
    cap        bigint     -- of the key; null: none
);

-- What was written: the calls that were settled, and [[account, balance, held]] of the accounts that it changed.
CREATE TYPE ledger_written AS (settled uuid[], accounts json);

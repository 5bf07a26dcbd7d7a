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

-- Sums of whom calls were for are written by the hour alone; those of a whole day are made of them when it is over, which
-- takes half of the work off every call. A day is here once it has its sums; what is written for it later adds to both.
CREATE TABLE call_log_attributed_days (
    account_id text NOT NULL,
    day        date NOT NULL,
    PRIMARY KEY (account_id, day)
);

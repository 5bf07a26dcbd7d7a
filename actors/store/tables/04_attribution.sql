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

-- Rows of the log added up by what they have of these, by key and by hour of UTC, written with them as `call_log_rollups`
-- is. A row counts once for each.
CREATE TABLE call_log_attributed (
    account_id    text NOT NULL,
    what          text NOT NULL,
    bucket        timestamptz NOT NULL,
    value         text NOT NULL,
    key_id        text NOT NULL,
    requests      bigint NOT NULL,
    cost_nano_usd bigint NOT NULL,
    input_tokens  bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    PRIMARY KEY (account_id, what, bucket, value, key_id)
) WITH (fillfactor = 70);

-- The same by day, made of the hours when a day is over, which takes half of the work off every call: by key, and of all
-- keys together (`key_id` is ''), so that a summary reads one sum of each value and day. Where there are many values, of all
-- keys together also by three hours, for the ends of a window (`attributed_spans`).
CREATE TABLE call_log_attributed_spans (
    requests      bigint NOT NULL,
    cost_nano_usd bigint NOT NULL,
    input_tokens  bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    start         timestamptz NOT NULL,
    hours         smallint NOT NULL,  -- 3, 24
    account_id    text NOT NULL,
    what          text NOT NULL,
    key_id        text NOT NULL,
    value         text NOT NULL,
    PRIMARY KEY (account_id, what, key_id, hours, start, value)
);

-- The spans that have such sums: what is written late for one of them adds to both. Those of a span are being made from the
-- moment that it stands here, and there once it `is_built`.
CREATE TABLE call_log_attributed_built (
    account_id text NOT NULL,
    hours      smallint NOT NULL,
    start      timestamptz NOT NULL,
    is_built   boolean NOT NULL DEFAULT false,
    PRIMARY KEY (hours, start, account_id) -- a batch of now finds by one look that there is none
);

CREATE INDEX call_log_attributed_unbuilt ON call_log_attributed_built (start) WHERE NOT is_built;

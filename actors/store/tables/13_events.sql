-- What has happened, for pulls and webhooks. A transaction writes its events into `events_written`, without a number;
-- `events_number` moves those of committed transactions into `events` and numbers them, one mover at a time. So numbers
-- rise without a gap in the order in which events become visible, however transactions overlap.
CREATE TABLE events_written (
    place      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         text NOT NULL,
    type       text NOT NULL,
    at         timestamptz NOT NULL,
    account_id text,
    data       json NOT NULL
);

-- numbered_at never falls from one number to the next, though the clock goes back.
CREATE TABLE events (
    sequence    bigint PRIMARY KEY,
    id          text NOT NULL CONSTRAINT events_id_once UNIQUE,
    type        text NOT NULL,
    at          timestamptz NOT NULL,
    account_id  text,
    data        json NOT NULL,
    numbered_at timestamptz NOT NULL
);

CREATE INDEX events_of_type ON events (type, sequence);
CREATE INDEX events_of_account ON events (account_id, type, sequence);
-- Events of a span of time are found for a replay; they lie almost in that order.
CREATE INDEX events_by_instant ON events USING brin (at) WITH (pages_per_range = 32);

-- last    the last number given; its row's lock is the right to number
-- counted the last number that a metric has
-- purged  the last number whose event has been deleted: all up to it are
CREATE TABLE event_numbers (
    is_only     boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    last        bigint NOT NULL DEFAULT 0,
    numbered_at timestamptz NOT NULL DEFAULT '-infinity',
    counted     bigint NOT NULL DEFAULT 0,
    purged      bigint NOT NULL DEFAULT 0
);
INSERT INTO event_numbers DEFAULT VALUES;

-- Who wants an event of each call: the configuration, or a webhook by its id. While there is no row, calls write none.
CREATE TABLE event_call_readers (
    name text PRIMARY KEY
);

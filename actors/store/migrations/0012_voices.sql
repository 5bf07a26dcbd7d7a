-- Voices that accounts have cloned.
--
-- channel_id, upstream_id  which channel knows the voice, and what it calls it: nobody else can speak with it
-- call_id                  the call that it was made by, and paid with

CREATE TABLE voices (
    id           text PRIMARY KEY,
    account_id   text NOT NULL REFERENCES accounts,
    name         text NOT NULL,
    channel_id   text NOT NULL,
    upstream_id  text NOT NULL,
    call_id      uuid NOT NULL,
    created_at   timestamptz NOT NULL
);

CREATE INDEX voices_of_account ON voices (account_id, created_at, id);

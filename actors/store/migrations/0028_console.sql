-- The console: links that sign in once, sessions of people, and what each process shows of itself.

-- What below refers to is locked together, before a writer has one of them; writers wait 0.3 s of every 2.3 meanwhile.
DO $$
BEGIN
    FOR attempt IN 1..600 LOOP
        BEGIN
            SET LOCAL lock_timeout = '300ms';
            LOCK TABLE ONLY entries, ONLY accounts IN SHARE ROW EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 600 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(2);
        END;
    END LOOP;
    SET LOCAL lock_timeout = 0;
END $$;

-- A link and a session are known by the SHA-256 of a text of 256 random bits. An operator has no account.
CREATE TABLE console_links (
    digest     bytea PRIMARY KEY,
    account_id text REFERENCES accounts (id),
    made_by    text NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE TABLE console_sessions (
    id           text PRIMARY KEY,
    digest       bytea NOT NULL CONSTRAINT console_sessions_digest_once UNIQUE,
    account_id   text REFERENCES accounts (id),
    name         text NOT NULL,        -- who made the link
    origin       text NOT NULL,        -- the address that it was opened from
    browser      text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz NOT NULL
);

CREATE INDEX console_sessions_by_age ON console_sessions (created_at, id);

-- One row for each process that has shown its figures lately; of no use after a restart of the database.
CREATE UNLOGGED TABLE console_samples (
    process_id text PRIMARY KEY,
    taken_at   timestamptz NOT NULL,
    sample     json NOT NULL
) WITH (fillfactor = 50);  -- each row is written every second

-- What accounts were given, for their pages: few rows of many, so that a call's entries leave it alone. Months that are
-- there stay without it, because writers would wait while they are read.
CREATE INDEX entries_credits ON ONLY entries (account_id, created_at, id) WHERE kind IN ('topup', 'trial');

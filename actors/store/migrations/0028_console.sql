-- The console: links that sign in once, sessions of people, and what each process shows of itself.

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

-- What accounts were given, for their pages: few rows of many, so that a call's entries leave it alone. Writers of entries
-- wait while each month is read once.
CREATE INDEX entries_credits ON entries (account_id, created_at, id) WHERE kind IN ('topup', 'trial');

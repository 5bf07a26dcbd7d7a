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

-- Forms of the console that were booked: a digest of the page's number and the form on it. Whoever sends one again is
-- refused.
CREATE TABLE console_forms (
    digest     bytea PRIMARY KEY,
    expires_at timestamptz NOT NULL
);

CREATE INDEX console_forms_by_end ON console_forms (expires_at);

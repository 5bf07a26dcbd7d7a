-- Jobs: calls that go on after their answers, made in the transaction that holds their money, and open as long as that
-- hold is.
--
-- A job that an upstream has accepted has a row in `job_polls` until it ends; that table is what every process looks
-- through for work, so it is narrow and holds open jobs alone. `jobs` keeps all of them, and changes only when
-- something does that a client can see.

CREATE TYPE job_state AS ENUM ('submitting', 'queued', 'running', 'succeeded', 'failed', 'expired', 'cancelled');

-- A job is visible from the moment when the upstream has accepted it (`upstream_id`).
--
-- kind        what it makes: video, music, speech, avatar
-- request     the members of the request that answers and links need
-- billing     {price: {…}, quantity: n}: what it costs (`actors/wallet/pricing.py`), fixed when it was submitted;
--             how much was asked for: milliseconds of video, characters of speech, 1 of anything else
-- submission  {attempts: […], detail: {…}}: for its row, of its submission
-- result      its results, as its kind's answers show them
-- ended_by    the process that ended it: the first of those that tried
CREATE TABLE jobs (
    id             text PRIMARY KEY,
    call_id        uuid NOT NULL UNIQUE,
    account_id     text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    kind           text NOT NULL CHECK (kind IN ('video', 'music', 'speech', 'avatar')),
    state          job_state NOT NULL DEFAULT 'submitting',
    key_id         text NOT NULL,
    protocol       text NOT NULL,        -- of its call
    model          text NOT NULL,
    request        json NOT NULL,
    billing        json NOT NULL,
    submitted_at   timestamptz NOT NULL,
    deadline_at    timestamptz NOT NULL,
    channel_id     text,
    wire           text,                 -- the protocol of the channel by which it was submitted
    upstream_model text,
    upstream_id    text,
    submission     json,
    progress       smallint CHECK (progress BETWEEN 0 AND 100),
    result         json,
    error_code     text,
    error_message  text,
    ended_at       timestamptz,
    ended_by       text,
    deleted_at     timestamptz,          -- by its owner: an avatar
    CONSTRAINT jobs_end CHECK ((ended_at IS NULL) = (state IN ('submitting', 'queued', 'running'))),
    CONSTRAINT jobs_accepted CHECK (
        num_nulls(channel_id, wire, upstream_model, upstream_id, submission) IN (0, 5)
        AND (upstream_id IS NOT NULL OR state IN ('submitting', 'failed')) AND (upstream_id IS NULL OR state <> 'submitting'))
) WITH (fillfactor = 80);

-- Lists of an account, a state at a time, newest first.
CREATE INDEX jobs_of_account ON jobs (account_id, kind, state, created_at, id)
    WHERE upstream_id IS NOT NULL AND deleted_at IS NULL;
-- The operator's list of all of them.
CREATE INDEX jobs_by_age ON jobs (created_at, id);

-- A job that no upstream accepted has no id that anyone was told.
CREATE TRIGGER jobs_ended AFTER UPDATE OF ended_at ON jobs FOR EACH ROW
    WHEN (NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL AND NEW.upstream_id IS NOT NULL)
    EXECUTE FUNCTION event_of_task();

-- due_at     when it is polled next; while it is leased, when the lease is over
-- leased_by  the claim of the process that polls it at this moment; null: none
CREATE TABLE job_polls (
    job_id       text PRIMARY KEY,
    kind         text NOT NULL,
    channel_id   text NOT NULL,
    due_at       timestamptz NOT NULL,
    leased_by    text,
    deadline_at  timestamptz NOT NULL,
    polls        integer NOT NULL DEFAULT 0,
    failures     integer NOT NULL DEFAULT 0,        -- in a row, of any kind
    not_found    smallint NOT NULL DEFAULT 0,       -- in a row: the upstream knew no such task
    said_unknown boolean NOT NULL DEFAULT false     -- an unknown status word was logged
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX job_polls_due ON job_polls (channel_id, due_at);

-- Copies of what jobs have made: one row per file, from its finding to its dropping.
--
-- state     waiting: to be fetched; kept: there; dropping: its bytes are to be removed; dropped, failed: they are not
--           there any more, or never were
-- due_at    of waiting and dropping: when it is taken up next; while it is leased, when the lease is over
-- leased_by the claim of the process that works at it at this moment; null: none
-- done      so many bytes are safe; size: of the whole, as the upstream reports it or, once kept, as it is
-- validator identifies the version of the upstream's file (ETag or Last-Modified)
-- upload_id, parts   of a bucket's upload in parts: its id, the tags of the parts that are there
-- store     where it is: local or s3. What another kind of store keeps is left alone.

CREATE TYPE media_copy_state AS ENUM ('waiting', 'kept', 'dropping', 'dropped', 'failed');

CREATE TABLE media_copies (
    id           text PRIMARY KEY,
    job_id       text NOT NULL,
    position     smallint NOT NULL,
    store        text NOT NULL,
    channel_id   text NOT NULL,
    wire         text NOT NULL,
    upstream_id  text NOT NULL,
    url          text,
    content_type text NOT NULL,
    state        media_copy_state NOT NULL DEFAULT 'waiting',
    due_at       timestamptz NOT NULL DEFAULT now(),
    leased_by    text,
    attempts     smallint NOT NULL DEFAULT 0,
    done         bigint NOT NULL DEFAULT 0,
    size         bigint,
    validator    text,
    upload_id    text,
    parts        text[] NOT NULL DEFAULT '{}',
    error        text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    kept_at      timestamptz,
    UNIQUE (job_id, position)
) WITH (fillfactor = 70);

CREATE INDEX media_copies_due ON media_copies (store, due_at) WHERE state IN ('waiting', 'dropping');
CREATE INDEX media_copies_kept ON media_copies (store, kept_at) WHERE state = 'kept';

-- Up to when the jobs have been looked through for files.
CREATE TABLE media_scan (
    is_only bool PRIMARY KEY DEFAULT true CHECK (is_only),
    seen_to timestamptz NOT NULL
);

-- What has been made lately.
CREATE INDEX jobs_made ON jobs (ended_at) WHERE state = 'succeeded' AND deleted_at IS NULL;

-- Voices that accounts have cloned.
--
-- channel_id, upstream_id  the only channel that knows the voice, and the voice's name there
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

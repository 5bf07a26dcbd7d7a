-- What becomes of a job: its state, what it is polled by and when, and how it ends along with its money.
--
-- A job that an upstream has accepted has a row in `job_polls` until it ends; that table is what every process looks
-- through for work, so it is narrow and holds open jobs alone. `jobs` keeps all of them, and changes only when
-- something does that a client can see.

CREATE TYPE job_state AS ENUM ('submitting', 'queued', 'running', 'succeeded', 'failed', 'expired', 'cancelled');

-- Until the upstream has accepted it (`upstream_id`) a job is nobody's to see, and stays so if it never does.
--
-- kind        what it makes: video, music, speech, avatar
-- request     what answers and links need of what was asked
-- billing     {price: {…}, quantity: n}: what it costs (`actors/wallet/unit_pricing.py`), fixed when it was submitted;
--             how much was asked for: milliseconds of video, characters of speech, 1 of anything else
-- submission  {attempts: […], detail: {…}}: what its row will say of its submission
-- result      what it brought, as its kind's answers show it
-- ended_by    who ended it; whoever reads his own name here was the first
ALTER TABLE jobs
    ADD COLUMN kind           text NOT NULL CHECK (kind IN ('video', 'music', 'speech', 'avatar')),
    ADD COLUMN state          job_state NOT NULL DEFAULT 'submitting',
    ADD COLUMN key_id         text NOT NULL,
    ADD COLUMN protocol       text NOT NULL,        -- of its call
    ADD COLUMN model          text NOT NULL,
    ADD COLUMN request        json NOT NULL,
    ADD COLUMN billing        json NOT NULL,
    ADD COLUMN submitted_at   timestamptz NOT NULL,
    ADD COLUMN deadline_at    timestamptz NOT NULL,
    ADD COLUMN channel_id     text,
    ADD COLUMN wire           text,                 -- the protocol of the channel by which it was submitted
    ADD COLUMN upstream_model text,
    ADD COLUMN upstream_id    text,
    ADD COLUMN submission     json,
    ADD COLUMN progress       smallint CHECK (progress BETWEEN 0 AND 100),
    ADD COLUMN result         json,
    ADD COLUMN error_code     text,
    ADD COLUMN error_message  text,
    ADD COLUMN ended_at       timestamptz,
    ADD COLUMN ended_by       text,
    ADD COLUMN deleted_at     timestamptz,          -- by its owner: an avatar
    ADD CONSTRAINT jobs_end CHECK ((ended_at IS NULL) = (state IN ('submitting', 'queued', 'running'))),
    ADD CONSTRAINT jobs_accepted CHECK (
        num_nulls(channel_id, wire, upstream_model, upstream_id, submission) IN (0, 5)
        AND (upstream_id IS NOT NULL OR state IN ('submitting', 'failed')) AND (upstream_id IS NULL OR state <> 'submitting'));

ALTER TABLE jobs SET (fillfactor = 80);

-- Lists of an account, a state at a time, newest first.
CREATE INDEX jobs_of_account ON jobs (account_id, kind, state, created_at, id)
    WHERE upstream_id IS NOT NULL AND deleted_at IS NULL;
-- The operator's list of all of them.
CREATE INDEX jobs_by_age ON jobs (created_at, id);

-- due_at     when it is polled next; while it is leased, when the lease is over
-- leased_by  the claim by which somebody polls it at this moment; null: nobody does
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
    said_unknown boolean NOT NULL DEFAULT false     -- a status word that nobody knows was logged
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX job_polls_due ON job_polls (channel_id, due_at);

-- Whoever looks for the holds of a process passes those of jobs by, however many there are.
CREATE INDEX holds_of_process ON holds (process_id) WHERE process_id IS NOT NULL;

-- p_jobs [{seq, id, call_id, account_id, key_id, kind, protocol, model, request, billing, submitted_at, deadline}]:
-- what the holds of these sequence numbers, which were granted, begin; `deadline` in seconds from now.
CREATE OR REPLACE FUNCTION jobs_begin(p_jobs json, p_granted integer[]) RETURNS void LANGUAGE sql AS $$
    WITH begun AS MATERIALIZED (
        SELECT * FROM json_to_recordset(p_jobs) AS x(seq integer, id text, call_id uuid, account_id text, key_id text,
            kind text, protocol text, model text, request json, billing json, submitted_at double precision,
            deadline double precision)
        WHERE x.seq = ANY (p_granted)
    ), made AS (
        INSERT INTO jobs (id, call_id, account_id, key_id, kind, protocol, model, request, billing, submitted_at,
            deadline_at)
        SELECT id, call_id, account_id, key_id, kind, protocol, model, request, billing, to_timestamp(submitted_at),
            now() + make_interval(secs => deadline)
        FROM begun
    )
    UPDATE holds h SET job_id = b.id FROM begun b WHERE h.call_id = b.call_id
$$;

DROP FUNCTION job_hand_over(uuid, json);

-- The upstream has accepted the job: from now on the hold of its call is its own, and any process polls it.
-- p_ended: what becomes of the call's idempotency key, as in `idempotency_end`; null: it stays claimed. Returns whether
-- the job is accepted under this id of the upstream's: not when recovery was quicker. Said again, it changes nothing.
CREATE FUNCTION job_accept(p_id text, p_call uuid, p_channel text, p_wire text, p_model text, p_upstream_id text,
    p_submission json, p_pause double precision, p_ended json)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holds SET process_id = NULL WHERE call_id = p_call AND job_id = p_id AND process_id IS NOT NULL;
    IF NOT FOUND THEN
        RETURN EXISTS (SELECT FROM jobs WHERE id = p_id AND (channel_id, upstream_id) = (p_channel, p_upstream_id));
    END IF;
    IF p_ended IS NOT NULL THEN
        PERFORM idempotency_end(p_ended, ARRAY[p_call]);
    END IF;
    INSERT INTO job_polls (job_id, kind, channel_id, due_at, deadline_at)
    SELECT id, kind, p_channel, least(now() + make_interval(secs => p_pause), deadline_at), deadline_at
    FROM jobs WHERE id = p_id;
    UPDATE jobs SET state = 'queued', channel_id = p_channel, wire = p_wire, upstream_model = p_model,
        upstream_id = p_upstream_id, submission = p_submission
    WHERE id = p_id;
    RETURN true;
END $$;

-- p_jobs [{id, call_id, state, progress, result, error_code, error_message, ended_at, ended_by}]: how the jobs of these
-- calls end, except where nothing was settled: another came first. Locks in the order of whoever books a poll:
-- `job_polls`, then `jobs`.
CREATE FUNCTION jobs_end(p_jobs json, p_unsettled uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM job_polls p USING json_to_recordset(p_jobs) AS x(id text, call_id uuid)
    WHERE p.job_id = x.id AND NOT x.call_id = ANY (p_unsettled);
    UPDATE jobs j SET state = x.state, progress = coalesce(x.progress, j.progress), result = x.result,
        error_code = x.error_code, error_message = x.error_message, ended_by = x.ended_by,
        ended_at = coalesce(to_timestamp(x.ended_at), now())
    FROM json_to_recordset(p_jobs) AS x(id text, call_id uuid, state job_state, progress smallint, result json,
        error_code text, error_message text, ended_at double precision, ended_by text)
    WHERE j.id = x.id AND j.call_id = x.call_id AND NOT x.call_id = ANY (p_unsettled) AND j.ended_at IS NULL;
END $$;

-- A batch in which jobs end: settlement, release of the hold, row and state, all or nothing. Batches of plain calls do
-- not come this way.
CREATE FUNCTION ledger_apply_jobs(p_jobs json, p_process text, p_accounts ledger_account[], p_keys ledger_key[],
    p_settlements ledger_settlement[], p_details json, p_holds ledger_hold[], p_calls json, p_rows json, p_unusual json)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    applied json := ledger_apply(p_process, p_accounts, p_keys, p_settlements, p_details, p_holds, p_calls, p_rows,
        p_unusual);
BEGIN
    PERFORM jobs_end(p_jobs, ARRAY(SELECT json_array_elements_text(applied -> 'unsettled')::uuid));
    RETURN applied;
END $$;

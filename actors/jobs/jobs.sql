-- accept --
-- Give the hold of a call to its job, which an upstream has accepted; return whether it is accepted under this id.
SELECT job_accept(%s, %s, %s, %s, %s, %s, %s, %s, %s)

-- one --
-- A job visible to its account; without an account any job, including those never accepted.
SELECT {columns} FROM jobs j
WHERE id = %(id)s AND (%(account)s::text IS NULL
    OR account_id = %(account)s AND upstream_id IS NOT NULL AND deleted_at IS NULL)

-- of_account --
-- An account's jobs of a kind in some states, newest first, older than a job if one is given: the newest of each state,
-- and of these the newest.
WITH before AS (
    SELECT created_at, id FROM jobs WHERE id = %(before)s AND account_id = %(account)s
), newest AS (
    SELECT found.id FROM unnest(%(states)s::job_state[]) AS s(state)
    CROSS JOIN LATERAL (
        SELECT id, created_at FROM jobs
        WHERE account_id = %(account)s AND kind = %(kind)s AND state = s.state
            AND upstream_id IS NOT NULL AND deleted_at IS NULL
            AND (%(before)s::text IS NULL OR (created_at, id) < (SELECT created_at, id FROM before))
        ORDER BY created_at DESC, id DESC LIMIT %(limit)s) found
    ORDER BY found.created_at DESC, found.id DESC LIMIT %(limit)s
)
SELECT {columns} FROM jobs j JOIN newest USING (id) ORDER BY created_at DESC, id DESC

-- newest --
-- The newest jobs of all accounts that match, older than a job if one is given.
SELECT {columns} FROM jobs j
WHERE (%(account)s::text IS NULL OR account_id = %(account)s) AND (%(kind)s::text IS NULL OR kind = %(kind)s)
    AND (%(state)s::job_state IS NULL OR state = %(state)s)
    AND (%(before)s::text IS NULL OR (created_at, id) < (SELECT created_at, id FROM jobs WHERE id = %(before)s))
ORDER BY created_at DESC, id DESC LIMIT %(limit)s

-- delete --
-- Hide the result of an account's ended job of a kind.
UPDATE jobs SET deleted_at = now()
WHERE id = %s AND account_id = %s AND kind = %s AND ended_at IS NOT NULL AND upstream_id IS NOT NULL
    AND deleted_at IS NULL
RETURNING id

-- renew_result --
-- Store a result with renewed links; the time of the renewal is unchanged.
UPDATE jobs SET result = (%s::jsonb || jsonb_build_object('renewal_asked_at', result -> 'renewal_asked_at'))::json
WHERE id = %s AND state = 'succeeded' AND deleted_at IS NULL

-- claim_renewals --
-- Those of these results that may be renewed again, so long after the last time.
UPDATE jobs SET result = (result::jsonb || jsonb_build_object('renewal_asked_at', extract(epoch FROM now())))::json
WHERE id = ANY (%s) AND state = 'succeeded' AND deleted_at IS NULL
    AND coalesce((result ->> 'renewal_asked_at')::float8, 0) <= extract(epoch FROM now()) - %s
RETURNING id

-- open --
-- A job that an upstream has accepted and that has not ended, with its hold; none whose end is in the quarantine.
SELECT {columns}, h.amount_nano_usd, submission, (h.call -> 'attribution')::text
FROM jobs j JOIN holds h ON h.call_id = j.call_id WHERE j.id = %s AND h.process_id IS NULL
    AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = j.call_id)

-- ended --
-- The process that ended a job, and the job's end state.
SELECT ended_by, state::text FROM jobs WHERE id = %s

-- claim --
-- Claim due jobs, at most so many of each channel, the longest overdue first; with the expired claim of another
-- process, if any.
WITH due AS MATERIALIZED (
    SELECT d.* FROM unnest(%(channels)s::text[], %(counts)s::integer[]) AS w(channel_id, count)
    CROSS JOIN LATERAL (
        SELECT p.job_id, p.leased_by AS before, p.due_at FROM job_polls p
        WHERE p.channel_id = w.channel_id AND p.due_at <= now()
        ORDER BY p.due_at LIMIT w.count FOR NO KEY UPDATE SKIP LOCKED) d
    LIMIT %(limit)s
), claimed AS (
    UPDATE job_polls p SET leased_by = %(claim_id)s, due_at = now() + make_interval(secs => %(seconds)s)
    FROM due WHERE p.job_id = due.job_id
    RETURNING p.*, due.before, extract(epoch FROM now() - due.due_at)::float8 AS lag
)
SELECT j.id, j.kind, j.state::text, j.account_id, j.model, j.channel_id, j.wire, j.upstream_id, j.progress,
    c.polls, c.failures, c.not_found, c.said_unknown, c.before, c.lag, c.deadline_at <= now()
FROM claimed c JOIN jobs j ON j.id = c.job_id

-- quiet --
-- For how many seconds no job of these channels is due, null if they have no open job. 0 if that is less than a tick,
-- or while a job is claimed: among the first hundred of a channel, as a claim is ordered by its end. With more before
-- it, jobs are due soon anyway.
SELECT (CASE WHEN min(d.due_at) <= now() + make_interval(secs => %s) OR bool_or(d.leased_by IS NOT NULL) THEN 0
             ELSE extract(epoch FROM min(d.due_at) - now()) END)::float8
FROM unnest(%s::text[]) AS w(channel_id)
CROSS JOIN LATERAL (
    SELECT p.due_at, p.leased_by FROM job_polls p
    WHERE p.channel_id = w.channel_id ORDER BY p.due_at LIMIT 100) d

-- book --
-- Store the results of polls that did not end their jobs: when each is due again, and its visible progress. Polls under
-- a lost claim store nothing, nor do those of a job that is being ended.
WITH polled AS (
    SELECT o.job_id, s.* FROM unnest(%(ids)s::text[], %(claim_ids)s::text[], %(pauses)s::float8[], %(failures)s::integer[],
        %(not_found)s::integer[], %(unknown)s::boolean[], %(states)s::text[], %(progress)s::integer[])
        AS s(id, claim_id, pause, failures, not_found, said_unknown, state, progress)
    JOIN job_polls o ON o.job_id = s.id AND o.leased_by = s.claim_id
    FOR NO KEY UPDATE OF o SKIP LOCKED
), booked AS (
    UPDATE job_polls p SET leased_by = NULL, polls = p.polls + 1, failures = s.failures, not_found = s.not_found,
        said_unknown = s.said_unknown,
        due_at = greatest(now(), least(now() + make_interval(secs => s.pause), p.deadline_at))
    FROM polled s WHERE p.job_id = s.job_id
    RETURNING s.job_id, s.state::job_state AS state, s.progress
)
UPDATE jobs j SET state = b.state, progress = b.progress FROM booked b
WHERE j.id = b.job_id AND (j.state, j.progress) IS DISTINCT FROM (b.state, b.progress)

-- gone_channels --
-- Channels with due jobs, by one index look-up each.
WITH RECURSIVE channels AS (
    SELECT min(channel_id) AS id FROM job_polls
    UNION ALL
    SELECT (SELECT min(channel_id) FROM job_polls WHERE channel_id > c.id) FROM channels c WHERE c.id IS NOT NULL
)
SELECT id FROM channels WHERE id IS NOT NULL AND NOT id = ANY (%s)

-- claim_overdue --
-- Claim overdue jobs whose channel is not in the configuration.
WITH overdue AS MATERIALIZED (
    SELECT job_id, leased_by AS before FROM job_polls
    WHERE channel_id = ANY (%(channels)s) AND deadline_at <= now() AND due_at <= now() LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
), claimed AS (
    UPDATE job_polls p SET leased_by = %(claim_id)s, due_at = now() + make_interval(secs => %(seconds)s)
    FROM overdue o WHERE p.job_id = o.job_id
    RETURNING p.*, o.before
)
SELECT j.id, j.kind, j.state::text, j.account_id, j.model, j.channel_id, j.wire, j.upstream_id, j.progress,
    c.polls, c.failures, c.not_found, c.said_unknown, c.before, 0::float8, true
FROM claimed c JOIN jobs j ON j.id = c.job_id

-- in_flight --
-- Number of open jobs of each kind.
SELECT kind, count(*) FROM job_polls GROUP BY kind

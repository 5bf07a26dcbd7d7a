-- found --
-- Add the files of jobs; known ones are unchanged.
INSERT INTO media_copies (id, job_id, position, store, state, channel_id, wire, upstream_id, url, content_type)
SELECT id, job_id, position, %(store)s, state::media_copy_state, channel_id, wire, upstream_id, url, content_type
FROM json_to_recordset(%(files)s) AS x(id text, job_id text, position smallint, state text, channel_id text, wire text,
    upstream_id text, url text, content_type text)
ON CONFLICT DO NOTHING
RETURNING id

-- claim --
-- Claim copies that are due to be made or dropped, the longest overdue first; none of some accounts.
WITH due AS MATERIALIZED (
    SELECT m.id, coalesce(j.account_id, '') AS account_id FROM media_copies m LEFT JOIN jobs j ON j.id = m.job_id
    WHERE m.store = %(store)s AND m.state = %(state)s::media_copy_state AND m.due_at <= now()
        AND coalesce(j.account_id, '') <> ALL (%(without)s::text[])
    ORDER BY m.due_at LIMIT %(limit)s FOR UPDATE OF m SKIP LOCKED
)
UPDATE media_copies c SET leased_by = %(claim_id)s, due_at = now() + make_interval(secs => %(seconds)s)
FROM due WHERE c.id = due.id
RETURNING c.id, c.job_id, due.account_id, c.channel_id, c.wire, c.upstream_id, c.url, c.content_type, c.attempts, c.done,
    c.size, c.validator, c.upload_id, c.parts, extract(epoch FROM now() - c.created_at)::float8

-- hold_on --
-- Renew the claim of a copy, and store its progress: null leaves that unchanged.
UPDATE media_copies SET due_at = now() + make_interval(secs => %(seconds)s),
    attempts = CASE WHEN %(done)s > done THEN 0 ELSE attempts END, done = coalesce(%(done)s, done), validator = CASE WHEN %(done)s IS NULL THEN validator ELSE %(validator)s END,
    upload_id = CASE WHEN %(done)s IS NULL THEN upload_id ELSE %(upload_id)s END,
    parts = CASE WHEN %(done)s IS NULL THEN parts ELSE %(parts)s END
WHERE id = %(id)s AND leased_by = %(claim_id)s AND state = 'waiting'
RETURNING id

-- room --
-- Whether there is room for so many bytes in all.
SELECT media_room(%(id)s, %(claim_id)s, %(store)s, %(size)s, %(max)s)

-- kept --
-- Mark a copy as kept.
UPDATE media_copies SET state = 'kept', kept_at = now(), leased_by = NULL, size = %(size)s, done = %(size)s,
    content_type = %(content_type)s, upload_id = NULL, parts = '{}', error = NULL
WHERE id = %(id)s AND leased_by = %(claim_id)s AND state = 'waiting'
RETURNING id

-- later --
-- Retry a copy after a pause.
UPDATE media_copies SET leased_by = NULL, due_at = now() + make_interval(secs => %(pause)s),
    attempts = attempts + %(attempts)s, error = %(error)s
WHERE id = %(id)s AND leased_by = %(claim_id)s AND state = 'waiting'
RETURNING id

-- given_up --
-- Give a copy up; its bytes are to be removed.
UPDATE media_copies SET state = 'dropping', leased_by = NULL, due_at = now(), error = %(error)s
WHERE id = %(id)s AND leased_by = %(claim_id)s AND state = 'waiting'
RETURNING id

-- expire --
-- Mark copies at the end of their retention to be dropped.
WITH old AS (
    SELECT id FROM media_copies WHERE store = %(store)s AND state = 'kept' AND kept_at < now() - make_interval(days => %(days)s)
    ORDER BY kept_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
UPDATE media_copies c SET state = 'dropping', due_at = now(), leased_by = NULL FROM old WHERE c.id = old.id
RETURNING c.id

-- dropped --
-- Mark a copy as dropped.
UPDATE media_copies SET state = CASE WHEN kept_at IS NULL THEN 'failed' ELSE 'dropped' END::media_copy_state,
    leased_by = NULL, size = NULL, done = 0, upload_id = NULL, parts = '{}'
WHERE id = %(id)s AND leased_by = %(claim_id)s AND state = 'dropping'
RETURNING id

-- of_jobs --
-- The kept copies of some jobs.
SELECT m.id, m.job_id, coalesce(j.account_id, ''), m.position, m.content_type, m.size, extract(epoch FROM m.kept_at)::float8
FROM media_copies m LEFT JOIN jobs j ON j.id = m.job_id
WHERE m.job_id = ANY (%(jobs)s) AND m.store = %(store)s AND m.state = 'kept' ORDER BY m.job_id, m.position

-- one --
-- A kept copy.
SELECT m.id, m.job_id, coalesce(j.account_id, ''), m.position, m.content_type, m.size, extract(epoch FROM m.kept_at)::float8
FROM media_copies m LEFT JOIN jobs j ON j.id = m.job_id
WHERE m.id = %(id)s AND m.store = %(store)s AND m.state = 'kept'

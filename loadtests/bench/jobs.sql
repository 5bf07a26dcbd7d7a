-- open_jobs --
-- Make open jobs of an account that hold its money, as many processes would have left them.
WITH made AS (
    SELECT n, md5('job' || n)::uuid AS call_id, 'vid_' || md5('job' || n) AS id, a.id AS account_id, k.id AS key_id
    FROM generate_series(1, %(count)s) n, accounts a JOIN keys k ON k.account_id = a.id
    WHERE a.id = (SELECT min(id) FROM accounts)
), jobs_made AS (
    INSERT INTO jobs (id, call_id, account_id, kind, state, key_id, protocol, model, request, billing, submitted_at,
        deadline_at, channel_id, wire, upstream_model, upstream_id, submission)
    SELECT id, call_id, account_id, 'video', 'running', key_id, 'videos', 'film', '{}',
        '{"price": {"per_second": "0.1"}, "quantity": 5000}', now(), now() + interval '10 days', 'film', 'videos',
        'film', 'up_' || n, '{"attempts": [], "detail": {}}' FROM made
), polls_made AS (
    INSERT INTO job_polls (job_id, kind, channel_id, due_at, deadline_at, polls)
    SELECT id, 'video', 'film', 'infinity', now() + interval '10 days', 10 FROM made
), held AS (
    INSERT INTO holds (call_id, account_id, key_id, amount_nano_usd, call, job_id)
    SELECT call_id, account_id, key_id, 10, '{"protocol": "videos", "model": "film", "submitted_at": 0}', id FROM made
), entered AS (
    INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd)
    SELECT account_id, key_id, call_id, 'hold', 0, 10 FROM made
), of_key AS (
    UPDATE key_spend SET held_nano_usd = held_nano_usd + 10 * %(count)s WHERE key_id = (SELECT min(key_id) FROM made)
)
UPDATE accounts SET held_nano_usd = held_nano_usd + 10 * %(count)s WHERE id = (SELECT min(account_id) FROM made)

-- poll --
-- From now on the jobs are due, evenly over the longest pause.
UPDATE job_polls SET due_at = now() + random() * interval '15 seconds', leased_by = NULL

-- rest --
-- From now on none is due.
UPDATE job_polls SET due_at = 'infinity', leased_by = NULL

-- analyze --
-- As the server would have done by itself after a minute.
ANALYZE jobs, job_polls, holds

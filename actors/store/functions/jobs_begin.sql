-- Makes the jobs of calls whose holds (by sequence number) were granted.
--
-- p_jobs [{seq, id, call_id, account_id, key_id, kind, protocol, model, request, billing, submitted_at, deadline}];
-- `deadline` in seconds from now. Lists are ordered by `created_at`, and show the time of the submission: it is one.
CREATE OR REPLACE FUNCTION jobs_begin(p_jobs json, p_granted integer[]) RETURNS void LANGUAGE sql AS $$
    WITH begun AS MATERIALIZED (
        SELECT * FROM json_to_recordset(p_jobs) AS x(seq integer, id text, call_id uuid, account_id text, key_id text,
            kind text, protocol text, model text, request json, billing json, submitted_at double precision,
            deadline double precision)
        WHERE x.seq = ANY (p_granted)
    ), made AS (
        INSERT INTO jobs (id, call_id, account_id, key_id, kind, protocol, model, request, billing, created_at,
            submitted_at, deadline_at)
        SELECT id, call_id, account_id, key_id, kind, protocol, model, request, billing, to_timestamp(submitted_at),
            to_timestamp(submitted_at), now() + make_interval(secs => deadline)
        FROM begun
    )
    UPDATE holds h SET job_id = b.id FROM begun b WHERE h.call_id = ANY (ARRAY[b.call_id])
$$;

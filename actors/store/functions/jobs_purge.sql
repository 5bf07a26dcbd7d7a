-- Deletes jobs that ended before p_first_kept, at most p_most, the oldest first, with the rows of their copies; returns
-- their number. Their costs stay in `entries`. A ready avatar is kept until its owner deletes it, and a job is kept as
-- long as a file of it is kept or its response is replayed.
CREATE OR REPLACE FUNCTION jobs_purge(p_first_kept date, p_most integer) RETURNS bigint LANGUAGE sql AS $$
    WITH kept AS MATERIALIZED (
        -- By this server's clock too: a gateway whose clock is ahead must not delete recent jobs.
        SELECT least(p_first_kept, date_trunc('month', now() AT TIME ZONE 'UTC')::date)::timestamp
            AT TIME ZONE 'UTC' AS since
    ), old AS MATERIALIZED (
        SELECT j.id FROM jobs j
        WHERE j.created_at < (SELECT since FROM kept) AND j.ended_at < (SELECT since FROM kept)
          AND (j.kind <> 'avatar' OR j.state <> 'succeeded' OR j.deleted_at IS NOT NULL)
          AND NOT EXISTS (SELECT FROM media_copies m
                          WHERE m.job_id = j.id AND m.state IN ('waiting', 'kept', 'dropping'))
          AND NOT EXISTS (SELECT FROM idempotency i WHERE i.call_id = j.call_id)
        ORDER BY j.created_at, j.id LIMIT p_most
        FOR UPDATE SKIP LOCKED
    ), forgotten AS (
        DELETE FROM media_copies m USING old WHERE m.job_id = old.id
    ), gone AS (
        DELETE FROM jobs j USING old WHERE j.id = old.id RETURNING 1
    )
    SELECT count(*) FROM gone
$$;

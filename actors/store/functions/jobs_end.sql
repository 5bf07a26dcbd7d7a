-- Ends the jobs of settled calls.
--
-- p_jobs [{id, call_id, state, progress, result, error_code, error_message, ended_at, ended_by}]. Jobs of calls in
-- p_unsettled are unchanged: another process was first. Locks in the order in which polls are booked: `job_polls`, then
-- `jobs`.
CREATE OR REPLACE FUNCTION jobs_end(p_jobs json, p_unsettled uuid[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    DELETE FROM job_polls p USING json_to_recordset(p_jobs) AS x(id text, call_id uuid)
    WHERE p.job_id = ANY (ARRAY[x.id]) AND NOT x.call_id = ANY (p_unsettled);
    UPDATE jobs j SET state = x.state, progress = coalesce(x.progress, j.progress), result = x.result,
        error_code = x.error_code, error_message = x.error_message, ended_by = x.ended_by,
        ended_at = coalesce(to_timestamp(x.ended_at), now())
    FROM json_to_recordset(p_jobs) AS x(id text, call_id uuid, state job_state, progress smallint, result json,
        error_code text, error_message text, ended_at double precision, ended_by text)
    WHERE j.id = ANY (ARRAY[x.id]) AND j.call_id = ANY (ARRAY[x.call_id]) AND NOT x.call_id = ANY (p_unsettled)
        AND j.ended_at IS NULL;
END $$;

-- How a hold passes from the process of its call to the job that the call began (see `jobs`).

-- p_jobs [{seq, id, call_id, account_id}]: what the holds of these sequence numbers, which were granted, begin.
CREATE FUNCTION jobs_begin(p_jobs json, p_granted integer[]) RETURNS void LANGUAGE sql AS $$
    WITH begun AS MATERIALIZED (
        SELECT * FROM json_to_recordset(p_jobs) AS x(seq integer, id text, call_id uuid, account_id text)
        WHERE x.seq = ANY (p_granted)
    ), made AS (
        INSERT INTO jobs (id, call_id, account_id) SELECT id, call_id, account_id FROM begun
    )
    UPDATE holds h SET job_id = b.id FROM begun b WHERE h.call_id = b.call_id
$$;

-- The call has begun its job: what it holds is the job's from now on. p_ended: what becomes of its idempotency key, as
-- in `idempotency_end`; null: it stays claimed. Returns false when nothing is held any more: recovery, or whoever ended
-- the job, was quicker. Said again, it changes nothing.
CREATE FUNCTION job_hand_over(p_call uuid, p_ended json) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holds SET process_id = NULL WHERE call_id = p_call AND job_id IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_ended IS NOT NULL THEN
        PERFORM idempotency_end(p_ended, ARRAY[p_call]);
    END IF;
    RETURN true;
END $$;

-- Records that an upstream has accepted the job: from now on the hold of its call belongs to the job, and any process
-- polls it. Notifies of the job, because a process without jobs to poll sleeps. Repeating it changes nothing.
--
-- p_ended: how the call's idempotency key ends, as in `idempotency_end`; null: it stays claimed. Returns whether the job is
-- accepted under this id of the upstream; it is not where recovery was first.
CREATE OR REPLACE FUNCTION job_accept(p_id text, p_call uuid, p_channel text, p_wire text, p_model text, p_upstream_id text,
    p_submission json, p_pause double precision, p_ended json)
RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
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
    PERFORM pg_notify('gw_changes', 'job:' || p_id);
    RETURN true;
END $$;

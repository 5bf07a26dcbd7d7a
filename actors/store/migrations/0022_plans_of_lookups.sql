-- As 0017 for batches of the ledger: functions whose plans are kept look up what they are about, also where they were
-- planned while their tables were empty. `x = ANY (ARRAY[y])` leaves no choice where rows in the order of an index would
-- be of use, and `enable_seqscan = off` none where a whole table looks as cheap as a look-up. Nothing else is changed,
-- but that `job_accept` pushes.

-- As defined before (0014). An agent of another account is still none.
CREATE OR REPLACE FUNCTION find_keys(p_lookup bytea[], p_legacy bytea[])
RETURNS TABLE (lookup_hash bytea, legacy_hash bytea, available_nano_usd bigint, id text, account_id text, name text,
    prefix text, kind text, agent_id text, allowed_models text[], expires_at timestamptz, account_logs boolean,
    spend_cap_nano_usd bigint, rpm_limit integer, concurrency_limit integer, user_name text, agent json,
    is_revoked boolean, is_enabled boolean, is_account_enabled boolean)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT k.lookup_hash, k.legacy_hash, a.balance_nano_usd - a.held_nano_usd,
        k.id, k.account_id, k.name, k.prefix, k.kind, k.agent_id, k.allowed_models, k.expires_at,
        k.account_logs, k.spend_cap_nano_usd, a.rpm_limit::integer, a.concurrency_limit::integer,
        k.user_name::text,
        CASE WHEN g.account_id = k.account_id AND k.kind = 'agent' THEN json_build_object(
            'id', g.id, 'user', g.user_name, 'system_prompt', g.system_prompt, 'model', g.model,
            'temperature', g.temperature, 'web_search', g.web_search, 'image_generation', g.image_generation,
            'kbs', g.kbs, 'enabled', g.enabled, 'default_model', a.default_model, 'allowed_models', a.allowed_models)
        END,
        k.revoked_at IS NOT NULL, k.enabled, a.enabled
    FROM keys k JOIN accounts a ON a.id = ANY (ARRAY[k.account_id])
    LEFT JOIN agents g ON g.id = ANY (ARRAY[k.agent_id])
    WHERE k.lookup_hash = ANY (p_lookup) OR k.legacy_hash = ANY (p_legacy);
END $$;

-- As defined before (0001). Rows are still locked in the order of their ids.
CREATE OR REPLACE FUNCTION write_last_uses(p_ids text[], p_seconds double precision[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    WITH used AS MATERIALIZED (
        SELECT k.id, t.at FROM unnest(p_ids, p_seconds) AS x(id, seconds)
        JOIN keys k ON k.id = ANY (ARRAY[x.id])
        CROSS JOIN LATERAL (SELECT to_timestamp(x.seconds) AS at) t
        WHERE k.last_used_at IS NULL OR k.last_used_at < t.at
        ORDER BY x.id FOR NO KEY UPDATE OF k
    )
    UPDATE keys SET last_used_at = used.at FROM used WHERE keys.id = ANY (ARRAY[used.id]);
END $$;

-- As defined before (0010).
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

-- As defined before (0010), but that it tells every process of the job: who has nothing to poll sleeps (`poller.py`).
-- It looks up one row at a time, and has no order to gain from.
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

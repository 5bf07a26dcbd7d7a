-- Notes when keys were last used; an earlier time changes nothing. Rows are locked in the order of their ids, so that
-- two processes do not wait on each other. A function, because its plan is made once in a session and looks keys up one
-- by one: a plan of its own read the whole table from some hundred keys on, once a second.
CREATE FUNCTION write_last_uses(p_ids text[], p_seconds double precision[]) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    WITH used AS MATERIALIZED (
        SELECT k.id, t.at FROM keys k
        JOIN unnest(p_ids, p_seconds) AS x(id, seconds) USING (id)
        CROSS JOIN LATERAL (SELECT to_timestamp(x.seconds) AS at) t
        WHERE k.last_used_at IS NULL OR k.last_used_at < t.at
        ORDER BY k.id FOR NO KEY UPDATE OF k
    )
    UPDATE keys SET last_used_at = used.at FROM used WHERE keys.id = used.id;
END $$;

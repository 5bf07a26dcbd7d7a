-- Writes when keys were last used; an earlier time changes nothing. Rows are locked in the order of their ids, so that
-- processes cannot deadlock.
--
-- Its plan is made once in a session, perhaps while its tables are empty: `x = ANY (ARRAY[y])` instead of `x = y`, and
-- `SET enable_seqscan = off`, restrict the planner to index look-ups.
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

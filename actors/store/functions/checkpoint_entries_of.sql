-- The entries until `p_ends` that later ones refer or may refer to, for the checkpoint of the month from `p_since` to
-- `p_ends`: those of calls with an open hold, and of calls that recovery settled or a correction changed.
CREATE OR REPLACE FUNCTION checkpoint_entries_of(p_since timestamptz, p_ends timestamptz)
RETURNS TABLE (id bigint, account_id text, key_id text, call_id uuid, kind entry_kind, amount_nano_usd bigint,
    held_nano_usd bigint, created_at timestamptz) LANGUAGE sql STABLE AS $$
    WITH past AS (
        SELECT * FROM entries_since(p_since) e WHERE e.created_at < p_ends AND e.call_id IS NOT NULL
    ), later AS (
        SELECT t.call_id FROM past t GROUP BY t.call_id
        HAVING count(*) FILTER (WHERE t.kind = 'hold') > count(*) FILTER (WHERE t.kind IN ('settle', 'refund'))
        UNION SELECT r.call_id FROM recovered_calls r
        UNION SELECT c.call_id FROM call_log_corrections c
    )
    SELECT t.* FROM past t JOIN later l ON l.call_id = t.call_id
$$;

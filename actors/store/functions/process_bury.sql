-- Declares a process dead and returns whether it is. `p_heartbeat`: only if that is still its last one; null: in any
-- case. The lock is that of the process's own batches: a running one ends first, and its holds are seen.
CREATE OR REPLACE FUNCTION process_bury(p_id text, p_by text, p_heartbeat timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_id, 0));
    UPDATE processes SET buried_at = now(), buried_by = p_by
    WHERE id = p_id AND buried_at IS NULL AND (p_heartbeat IS NULL OR heartbeat_at = p_heartbeat);
    RETURN EXISTS (SELECT FROM processes WHERE id = p_id AND buried_at IS NOT NULL);
END $$;

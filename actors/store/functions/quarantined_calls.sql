-- The calls whose own settlements wait in the quarantine: their holds stay until they are booked, and neither recovery nor
-- their jobs settle them otherwise.
CREATE OR REPLACE FUNCTION quarantined_calls() RETURNS TABLE (call_id uuid) LANGUAGE sql STABLE AS $$
    SELECT q.call_id FROM quarantine q WHERE q.booked_at IS NULL AND NOT q.is_recovery
$$;

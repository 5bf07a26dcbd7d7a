-- Reserves `p_size` bytes in all for one copy, if all copies of its store may have `p_max`; marks the oldest kept ones
-- to be dropped if needed. False: only after they have been dropped, or never.
CREATE OR REPLACE FUNCTION media_room(p_id text, p_lease text, p_store text, p_size bigint, p_max bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    spare bigint;
    oldest record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('media_room', 0));
    SELECT p_max - p_size - coalesce(sum(size) FILTER (WHERE state <> 'dropping'), 0) INTO spare FROM media_copies
    WHERE store = p_store AND state IN ('waiting', 'kept', 'dropping') AND id <> p_id;
    IF spare < 0 AND p_size <= p_max THEN
        FOR oldest IN SELECT id, size FROM media_copies WHERE store = p_store AND state = 'kept' ORDER BY kept_at LOOP
            EXIT WHEN spare >= 0;
            UPDATE media_copies SET state = 'dropping', due_at = now(), leased_by = NULL WHERE id = oldest.id;
            spare := spare + oldest.size;
        END LOOP;
    END IF;
    SELECT p_max - p_size - coalesce(sum(size), 0) INTO spare FROM media_copies
    WHERE store = p_store AND state IN ('waiting', 'kept', 'dropping') AND id <> p_id;
    UPDATE media_copies SET size = p_size WHERE id = p_id AND leased_by = p_lease AND spare >= 0;
    RETURN spare >= 0 AND FOUND;
END $$;

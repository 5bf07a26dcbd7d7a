-- Deletes deliveries whose events are gone from the outbox, and those of deleted webhooks with their last one the webhook:
-- of each at most `p_most`, and none of a webhook that somebody is changing. Returns the most that it deleted of one.
CREATE OR REPLACE FUNCTION webhooks_purge(p_most integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    w       webhooks;
    gone_to bigint := (SELECT purged FROM event_numbers);
    gone    bigint;
    waiting bigint;
    died    bigint;
    most    bigint := 0;
BEGIN
    FOR w IN SELECT * FROM webhooks ORDER BY id FOR NO KEY UPDATE SKIP LOCKED LOOP
        WITH deleted AS (
            DELETE FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.sequence = ANY (ARRAY(
                SELECT o.sequence FROM webhook_deliveries o
                WHERE o.webhook_id = w.id AND (w.deleted_at IS NOT NULL OR o.sequence <= gone_to)
                ORDER BY o.sequence LIMIT p_most))
            RETURNING d.status
        )
        SELECT count(*), count(*) FILTER (WHERE status = 'pending'), count(*) FILTER (WHERE status = 'dead')
        INTO gone, waiting, died FROM deleted;
        IF gone > 0 THEN
            UPDATE webhooks SET pending = pending - waiting, dead = dead - died WHERE id = w.id;
        ELSIF w.deleted_at IS NOT NULL THEN
            DELETE FROM webhooks WHERE id = w.id;
        END IF;
        most := greatest(most, gone);
    END LOOP;
    RETURN most;
END $$;

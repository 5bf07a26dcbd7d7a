-- Makes deliveries of a webhook pending again, or for the first time: of one event, of the events of a span of time, or all
-- dead ones (the other two are null then). Returns how many; -1 if more than `p_queue` would be pending, which does
-- nothing; null if there is no such webhook.
CREATE OR REPLACE FUNCTION webhook_replay(
    p_webhook text, p_event text, p_from timestamptz, p_to timestamptz, p_queue bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    w         webhooks;
    sequences bigint[];
    was_dead  bigint;
BEGIN
    SELECT * INTO w FROM webhooks WHERE id = p_webhook AND deleted_at IS NULL FOR NO KEY UPDATE;
    IF w.id IS NULL THEN
        RETURN NULL;
    END IF;
    IF p_event IS NULL AND p_from IS NULL THEN
        SELECT array_agg(sequence) INTO sequences FROM (
            SELECT d.sequence FROM webhook_deliveries d
            WHERE d.webhook_id = w.id AND d.status = 'dead'
                AND EXISTS (SELECT FROM events e WHERE e.sequence = d.sequence)
            ORDER BY d.sequence LIMIT p_queue - w.pending + 1) found;
    ELSE
        SELECT array_agg(sequence) INTO sequences FROM (
            SELECT e.sequence FROM events e
            WHERE (p_event IS NULL OR e.id = p_event)
                AND (p_from IS NULL OR e.at >= p_from) AND (p_to IS NULL OR e.at < p_to)
                AND webhook_takes(w.types, w.account_id, e.type, e.account_id)
                AND NOT EXISTS (SELECT FROM webhook_deliveries d
                    WHERE d.webhook_id = w.id AND d.sequence = e.sequence AND d.status = 'pending')
            ORDER BY e.sequence LIMIT p_queue - w.pending + 1) found;
    END IF;
    IF coalesce(cardinality(sequences), 0) > p_queue - w.pending THEN
        RETURN -1;
    END IF;
    SELECT count(*) INTO was_dead FROM webhook_deliveries d
    WHERE d.webhook_id = w.id AND d.sequence = ANY (sequences) AND d.status = 'dead';
    INSERT INTO webhook_deliveries AS d (webhook_id, sequence, event_id, type, next_attempt_at)
    SELECT w.id, e.sequence, e.id, e.type, now() FROM events e WHERE e.sequence = ANY (sequences)
    ON CONFLICT ON CONSTRAINT webhook_deliveries_pkey DO UPDATE
        SET status = 'pending', attempts = 0, next_attempt_at = now();
    UPDATE webhooks SET pending = pending + coalesce(cardinality(sequences), 0), dead = dead - was_dead WHERE id = w.id;
    RETURN coalesce(cardinality(sequences), 0);
END $$;

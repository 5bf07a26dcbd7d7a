-- Takes a webhook's next events from the outbox: of the next `p_read` those that are for it, as long as no more than
-- `p_queue` are pending. Returns up to where the outbox is read; null if the claim is lost or the webhook does not work.
CREATE OR REPLACE FUNCTION webhook_take_in(
    p_webhook text, p_process text, p_claim bigint, p_read integer, p_queue bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    w       webhooks;
    room    bigint;
    read_to bigint;
    added   bigint;
BEGIN
    SELECT * INTO w FROM webhooks
    WHERE id = p_webhook AND claimed_by = p_process AND claim = p_claim AND enabled AND deleted_at IS NULL
    FOR NO KEY UPDATE;
    room := p_queue - w.pending;
    IF w.id IS NULL OR room <= 0 THEN
        RETURN w.after_sequence;
    END IF;
    WITH next AS (
        SELECT e.sequence, e.id, e.type, e.account_id FROM events e
        WHERE e.sequence > w.after_sequence ORDER BY e.sequence LIMIT p_read
    ), wanted AS (
        SELECT n.sequence, n.id, n.type FROM next n
        WHERE webhook_takes(w.types, w.account_id, n.type, n.account_id) ORDER BY n.sequence LIMIT room
    ), taken AS (
        INSERT INTO webhook_deliveries (webhook_id, sequence, event_id, type)
        SELECT w.id, x.sequence, x.id, x.type FROM wanted x
        ON CONFLICT DO NOTHING
        RETURNING 1
    )
    SELECT CASE WHEN (SELECT count(*) FROM wanted) = room THEN (SELECT max(sequence) FROM wanted)
            ELSE (SELECT max(sequence) FROM next) END,
        (SELECT count(*) FROM taken)
    INTO read_to, added;
    IF read_to IS NOT NULL THEN
        UPDATE webhooks SET after_sequence = read_to, pending = pending + added WHERE id = w.id;
    END IF;
    RETURN coalesce(read_to, w.after_sequence);
END $$;

-- Books the ends of attempts, those under a claim that still stands: [{webhook_id, claim, sequence, outcome, status, pause,
-- ago}], `status` the delivery's from now on, `pause` and `ago` in seconds until its next and since its last attempt.
-- Disables a webhook whose receiver is gone (410), and one of which an event died after attempts have failed for
-- `p_failing_days` without one that did not. Returns those that it disabled, and why.
CREATE OR REPLACE FUNCTION webhook_book(p_process text, p_ends json, p_failing_days integer)
RETURNS TABLE (webhook_id text, reason text) LANGUAGE plpgsql AS $$
DECLARE
    w         webhooks;
    delivered bigint;
    died      bigint;
    failed    bigint;
    gone      boolean;
    since     timestamptz;
BEGIN
    FOR w IN
        SELECT x.* FROM webhooks x
        WHERE x.claimed_by = p_process AND x.deleted_at IS NULL
            AND x.id IN (SELECT e ->> 'webhook_id' FROM json_array_elements(p_ends) e)
        ORDER BY x.id FOR NO KEY UPDATE
    LOOP
        WITH ended AS (
            SELECT r.* FROM json_to_recordset(p_ends) AS r(webhook_id text, claim bigint, sequence bigint, outcome text,
                status text, pause float8, ago float8)
            WHERE r.webhook_id = w.id AND r.claim = w.claim
        ), booked AS (
            UPDATE webhook_deliveries d SET status = r.status, attempts = d.attempts + 1, last_outcome = r.outcome,
                last_attempt_at = clock_timestamp() - make_interval(secs => r.ago),
                next_attempt_at = CASE WHEN r.status = 'pending'
                    THEN clock_timestamp() + make_interval(secs => r.pause) END
            FROM ended r
            WHERE d.webhook_id = w.id AND d.sequence = r.sequence AND d.status = 'pending'
            RETURNING d.status, d.last_outcome
        )
        SELECT count(*) FILTER (WHERE b.status = 'delivered'), count(*) FILTER (WHERE b.status = 'dead'),
            count(*) FILTER (WHERE b.status <> 'delivered'), coalesce(bool_or(b.last_outcome = '410'), false)
        INTO delivered, died, failed, gone FROM booked b;
        since := CASE WHEN delivered > 0 THEN NULL WHEN failed > 0 THEN coalesce(w.failing_since, now())
            ELSE w.failing_since END;
        webhook_id := w.id;
        reason := CASE WHEN NOT w.enabled THEN NULL WHEN gone THEN 'gone'
            WHEN died > 0 AND since <= now() - make_interval(days => p_failing_days) THEN 'failing' END;
        UPDATE webhooks SET pending = pending - delivered - died, dead = dead + died, failing_since = since
        WHERE id = w.id AND (delivered > 0 OR failed > 0);
        IF reason IS NOT NULL THEN
            UPDATE webhooks SET enabled = false, disabled_for = reason WHERE id = w.id;
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;

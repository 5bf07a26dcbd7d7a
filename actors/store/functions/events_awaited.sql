-- The least number of an event that a webhook has still to be sent, which is kept however old it is; null: none. Those that
-- do not work await nothing.
CREATE OR REPLACE FUNCTION events_awaited() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT min(least(w.after_sequence + 1, (SELECT min(d.sequence) FROM webhook_deliveries d
        WHERE d.webhook_id = w.id AND d.status = 'pending')))
    FROM webhooks w WHERE w.enabled AND w.deleted_at IS NULL
$$;

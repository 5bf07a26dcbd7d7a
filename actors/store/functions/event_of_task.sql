-- Writes `task.ended` in the transaction that ends a job, after its row of the call log was written.
CREATE OR REPLACE FUNCTION event_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM event_write(NEW.account_id, 'task.ended', json_build_object(
        'task_id', NEW.id, 'kind', NEW.kind, 'status', NEW.state, 'model', NEW.model,
        'cost_usd', usd_text(coalesce((
            SELECT sum(cost_nano_usd)::bigint FROM call_logs
            WHERE request_id = NEW.call_id AND created_at >= NEW.created_at - interval '1 day'), 0)),
        'request_id', replace(NEW.call_id::text, '-', '')), NEW.ended_at);
    RETURN NULL;
END $$;

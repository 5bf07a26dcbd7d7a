-- Writes `account.enabled` or `account.disabled`, once for each change.
CREATE OR REPLACE FUNCTION event_of_switch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM event_write(NEW.id, CASE WHEN NEW.enabled THEN 'account.enabled' ELSE 'account.disabled' END,
        json_build_object('name', NEW.name, 'changes', json_build_object('enabled', NEW.enabled)));
    RETURN NULL;
END $$;

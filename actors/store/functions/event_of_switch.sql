-- Writes `account.enabled` or `account.disabled`, once for each change.
CREATE OR REPLACE FUNCTION event_of_switch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_regproc('event_write') IS NULL THEN
        RETURN NULL;  -- amid an upgrade, while gateways of the program before write
    END IF;
    PERFORM event_write(NEW.id, CASE WHEN NEW.enabled THEN 'account.enabled' ELSE 'account.disabled' END,
        json_build_object('name', NEW.name, 'changes', json_build_object('enabled', NEW.enabled)));
    RETURN NULL;
END $$;

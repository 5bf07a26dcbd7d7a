-- Writes `key.revoked`, once for each key.
CREATE OR REPLACE FUNCTION event_of_revocation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM event_write(NEW.account_id, 'key.revoked', json_build_object(
        'key_id', NEW.id, 'name', NEW.name, 'kind', NEW.kind, 'changes', json_build_object()), NEW.revoked_at);
    RETURN NULL;
END $$;

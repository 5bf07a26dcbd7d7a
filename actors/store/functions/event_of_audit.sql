-- Writes the event of a change of an account or key that was noted in the audit trail, in the same transaction: whoever made
-- it, by a command, the admin API, the console, a request that was approved, or an import. The settings are those noted,
-- which have no secrets; of an account that is switched on or off there is another event (`event_of_switch`).
CREATE OR REPLACE FUNCTION event_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    settings jsonb := NEW.details::jsonb - ARRAY['credit_usd', 'trial', 'agent_id', 'keys'];
BEGIN
    IF NEW.action LIKE 'account.%' THEN
        IF NEW.action = 'account.set' THEN
            settings := settings - 'enabled';
        END IF;
        PERFORM event_write(id, CASE NEW.action WHEN 'account.set' THEN 'account.updated' ELSE 'account.created' END,
            json_build_object('name', name, 'changes', settings), NEW.at)
        FROM accounts WHERE id = NEW.object AND (NEW.action <> 'account.set' OR settings <> '{}');
        PERFORM event_write(k.account_id, 'key.created', json_build_object(
            'key_id', k.id, 'name', k.name, 'kind', k.kind, 'changes', json_build_object()), NEW.at)
        FROM json_array_elements_text(NEW.details -> 'keys') WITH ORDINALITY AS made(id, place)
        JOIN keys k ON k.id = made.id
        WHERE NEW.action = 'account.import';
    ELSE
        PERFORM event_write(account_id, CASE NEW.action WHEN 'key.set' THEN 'key.updated' ELSE 'key.created' END,
            json_build_object('key_id', id, 'name', name, 'kind', kind, 'changes', settings), NEW.at)
        FROM keys WHERE id = NEW.object;
    END IF;
    RETURN NULL;
END $$;

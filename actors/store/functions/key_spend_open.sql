-- Makes the spending row of a new key.
CREATE OR REPLACE FUNCTION key_spend_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO key_spend (key_id, account_id) VALUES (NEW.id, NEW.account_id);
    RETURN NULL;
END $$;

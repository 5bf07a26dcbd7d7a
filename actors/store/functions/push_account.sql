-- Notifies every running gateway of a change that is cached with the keys of an account.
CREATE OR REPLACE FUNCTION push_account() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gw_changes', 'account:' || NEW.account_id);
    RETURN NULL;
END $$;

-- Notifies every running gateway of a removed row, by its kind and id.
CREATE OR REPLACE FUNCTION push_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gw_changes', TG_ARGV[0] || ':' || OLD.id);
    RETURN NULL;
END $$;

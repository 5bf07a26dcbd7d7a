-- Notifies every running gateway of a changed row, by its kind and id.
CREATE OR REPLACE FUNCTION push_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('gw_changes', TG_ARGV[0] || ':' || NEW.id);
    RETURN NULL;
END $$;

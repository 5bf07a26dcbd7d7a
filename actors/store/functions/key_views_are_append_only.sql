-- Refuses changes to the list of views of keys.
CREATE OR REPLACE FUNCTION key_views_are_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'views of keys are append-only';
END $$;

-- Refuses a change of the list of corrections.
CREATE OR REPLACE FUNCTION call_log_corrections_are_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'corrections of the call log are append-only';
END $$;

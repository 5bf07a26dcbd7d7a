-- Makes the table of one month, unattached: with the indexes and the trigger that guard its rows, and nothing else.
CREATE OR REPLACE FUNCTION entries_new_table(p_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I (LIKE entries INCLUDING DEFAULTS)', p_name);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (id) WHERE call_id IS NULL', p_name || '_one_booking', p_name);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (call_id) WHERE kind = ''hold''', p_name || '_one_hold', p_name);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (call_id) WHERE kind IN (''settle'', ''refund'')',
        p_name || '_one_resolution', p_name);
    EXECUTE format('CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON %I'
        ' FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only()', p_name);
END $$;

-- Attaches the old entries as the first month. They are no longer written, so writers do not wait while they are read once
-- to see that all are older than the others; entries of statements that crossed the border move to their side of it.
DO $$
DECLARE
    border timestamptz := (SELECT ends_at FROM entry_months WHERE name = 'entries_first');
BEGIN
    IF border IS NULL THEN
        RETURN; -- there were none
    END IF;
    ALTER TABLE entries_first DISABLE TRIGGER entries_append_only;
    WITH ahead AS (DELETE FROM entries_first WHERE created_at >= border RETURNING *)
    INSERT INTO entries SELECT * FROM ahead;
    EXECUTE format('ALTER TABLE entries_first ADD CONSTRAINT entries_first_border CHECK (created_at < %L)', border);
    -- No statement may be on its way into the default table, which is about to refuse what is older than the border. As
    -- in the migration before, writers wait 0.3 s of every 2.3 meanwhile.
    FOR attempt IN 1..600 LOOP
        BEGIN
            SET LOCAL lock_timeout = '300ms';
            LOCK TABLE ONLY entries IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 600 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(2);
        END;
    END LOOP;
    SET LOCAL lock_timeout = 0;
    LOCK TABLE entries_default IN ACCESS EXCLUSIVE MODE;
    ALTER TABLE entries_default DISABLE TRIGGER entries_append_only;
    WITH behind AS (DELETE FROM entries_default WHERE created_at < border RETURNING *)
    INSERT INTO entries_first SELECT * FROM behind;
    ALTER TABLE entries_default ENABLE TRIGGER entries_append_only;
    ALTER TABLE entries_first ENABLE TRIGGER entries_append_only;
    EXECUTE format('ALTER TABLE entries ATTACH PARTITION entries_first FOR VALUES FROM (MINVALUE) TO (%L)', border);
    ALTER TABLE entries_first DROP CONSTRAINT entries_first_border;
END $$;

-- A digest of each row's content, written with it. Null: of a row from before. A column without a default changes no row;
-- writers of the log wait while the lock is waited for, 0.3 s of every 2.3.
DO $$
BEGIN
    FOR attempt IN 1..600 LOOP
        BEGIN
            SET LOCAL lock_timeout = '300ms';
            LOCK TABLE call_logs IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 600 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(2);
        END;
    END LOOP;
    SET LOCAL lock_timeout = 0;
    ALTER TABLE call_logs ADD COLUMN digest bigint;
END $$;

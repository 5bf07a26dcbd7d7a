-- New rows of the log have their events written with their sums. Calls wait while the lock is waited for, 0.3 s of every
-- 2.3.
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
    DROP TRIGGER call_logs_settled ON call_logs;
END $$;

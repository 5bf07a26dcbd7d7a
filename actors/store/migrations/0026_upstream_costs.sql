-- What calls cost the operator beside what their clients pay, by the channel that served them.

-- The same rows added up by day of UTC, written with them as `call_log_rollups` is. channel_id: '' for none. Rows from
-- before this table are in `call_log_rollups` alone.
CREATE TABLE call_log_margins (
    day                    date NOT NULL,
    account_id             text NOT NULL,
    model                  text NOT NULL,
    channel_id             text NOT NULL,
    requests               bigint NOT NULL,
    unknown_costs          bigint NOT NULL,  -- of those requests
    cost_nano_usd          bigint NOT NULL,
    upstream_cost_nano_usd bigint NOT NULL,  -- as far as it is known
    PRIMARY KEY (day, account_id, model, channel_id)
) WITH (fillfactor = 70);

-- Null: not known, as of every row that is there. Columns without a default change no row; writers of the log wait
-- while the lock is waited for, 0.3 s of every 2.3.
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
    ALTER TABLE call_logs
        ADD COLUMN upstream_cost_nano_usd bigint,
        ADD COLUMN channel_id text;  -- the last one tried; null: none
    CREATE TRIGGER call_logs_add_margins AFTER INSERT ON call_logs
        REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_add_margins();
    CREATE TRIGGER call_logs_add_margins_changed AFTER UPDATE ON call_logs
        REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_add_margins();
    CREATE TRIGGER call_logs_take_back_margins_changed AFTER UPDATE ON call_logs
        REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back_margins();
    CREATE TRIGGER call_logs_take_back_margins_removed AFTER DELETE ON call_logs
        REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION call_logs_take_back_margins();
END $$;

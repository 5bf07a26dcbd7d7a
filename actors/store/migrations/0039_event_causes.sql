-- What writes events: changes of accounts and keys, bookings that take a balance below what its account names, ends of
-- tasks, and calls while someone reads these. Calls wait while the locks are waited for, 0.3 s of every 2.3; all are taken
-- at once, so that no batch has one of them and waits for another.
DO $$
BEGIN
    FOR attempt IN 1..600 LOOP
        BEGIN
            SET LOCAL lock_timeout = '300ms';
            LOCK TABLE accounts, keys, jobs, call_logs IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 600 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(2);
        END;
    END LOOP;
    SET LOCAL lock_timeout = 0;
END $$;

-- Each once, the greatest first. An account without alerts pays for the trigger with one look at this.
ALTER TABLE accounts ADD COLUMN balance_alerts_nano_usd bigint[] NOT NULL DEFAULT '{}';

CREATE TRIGGER accounts_low AFTER UPDATE OF balance_nano_usd ON accounts FOR EACH ROW
    WHEN (NEW.balance_alerts_nano_usd <> '{}' AND NEW.balance_nano_usd < OLD.balance_nano_usd)
    EXECUTE FUNCTION event_of_balance();

CREATE TRIGGER accounts_switched AFTER UPDATE OF enabled ON accounts FOR EACH ROW
    WHEN (NEW.enabled <> OLD.enabled) EXECUTE FUNCTION event_of_switch();

CREATE TRIGGER keys_revoked AFTER UPDATE OF revoked_at ON keys FOR EACH ROW
    WHEN (NEW.revoked_at IS NOT NULL AND OLD.revoked_at IS NULL) EXECUTE FUNCTION event_of_revocation();

CREATE TRIGGER audit_trail_events AFTER INSERT ON audit_trail FOR EACH ROW
    WHEN (NEW.action IN ('account.create', 'account.set', 'account.import', 'key.create', 'key.import', 'key.approve',
                         'key.set'))
    EXECUTE FUNCTION event_of_audit();

-- A job that no upstream accepted has no id that anyone was told.
CREATE TRIGGER jobs_ended AFTER UPDATE OF ended_at ON jobs FOR EACH ROW
    WHEN (NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL AND NEW.upstream_id IS NOT NULL)
    EXECUTE FUNCTION event_of_task();

CREATE TRIGGER call_logs_settled AFTER INSERT ON call_logs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION events_of_calls();
CREATE TRIGGER call_logs_settled_anew AFTER UPDATE ON call_logs
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION events_of_calls();

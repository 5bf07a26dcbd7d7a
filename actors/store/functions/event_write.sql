-- Writes an event in the caller's transaction: one insert, and one notification however many events a transaction writes.
-- `p_at` is the instant of the cause, `p_data` what the reference says of the type, without a key's text.
CREATE OR REPLACE FUNCTION event_write(p_account text, p_type text, p_data json,
    p_at timestamptz DEFAULT clock_timestamp())
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO events_written (id, type, at, account_id, data)
    VALUES ('evt_' || replace(gen_random_uuid()::text, '-', ''), p_type, p_at, p_account, p_data);
    PERFORM pg_notify('gw_changes', 'event:');
END $$;

-- Calls back all leases of an account, which the caller has locked. Nothing is leased of it for a while. A process learns of
-- it by this notification, as if another process had asked (`Neighbours`), or by its next heartbeat.
--
-- What a lease is for stays reserved until its process has returned it: only that knows what it has admitted from it.
CREATE OR REPLACE FUNCTION leases_call_back(p_account text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE leases SET called_at = clock_timestamp() WHERE account_id = ANY (ARRAY[p_account]) AND called_at IS NULL;
    IF FOUND THEN
        PERFORM pg_notify('gw_settled', 'give_back ledger ' || p_account);
    END IF;
    UPDATE accounts SET unleased_until = clock_timestamp() + interval '3 seconds' WHERE id = ANY (ARRAY[p_account]);
END $$;

-- Takes a lease from a process that has not returned it since it was called back at that time; returns the amount. The
-- caller has waited for so long that the process admits nothing from it any more (`actors/recovery.py`). The row stays, for
-- the process's next heartbeat.
CREATE OR REPLACE FUNCTION lease_take(p_process text, p_account text, p_called_at timestamptz) RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
    taken bigint;
BEGIN
    PERFORM FROM accounts WHERE id = p_account FOR NO KEY UPDATE;
    SELECT amount_nano_usd INTO taken FROM leases
    WHERE process_id = p_process AND account_id = p_account AND called_at = p_called_at;
    UPDATE leases SET amount_nano_usd = 0 WHERE process_id = p_process AND account_id = p_account AND called_at = p_called_at;
    IF FOUND THEN
        PERFORM budget_leases_of(p_process, p_account);
    END IF;
    UPDATE accounts SET leased_nano_usd = leased_nano_usd - taken WHERE id = p_account AND taken > 0;
    RETURN coalesce(taken, 0);
END $$;

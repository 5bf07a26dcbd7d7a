-- `ledger_write_batch` for a running statement of the previous release, while the functions are replaced.
CREATE OR REPLACE FUNCTION ledger_write(p_process text, p_settlements ledger_settlement[], p_details json,
    p_holds ledger_hold[], p_calls json, p_granted integer[])
RETURNS ledger_written LANGUAGE sql AS $$
    SELECT ledger_write_batch(p_process, p_settlements, p_details, p_holds, p_calls, p_granted, NULL, NULL, NULL, false)
$$;

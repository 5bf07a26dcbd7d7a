-- `ledger_batch` for processes of the previous release, which continue to serve during a rolling upgrade.
CREATE OR REPLACE FUNCTION ledger_apply(p_process text, p_accounts ledger_account[], p_keys ledger_key[],
    p_settlements ledger_settlement[], p_details json, p_holds ledger_hold[], p_calls json, p_rows json, p_unusual json)
RETURNS json LANGUAGE sql AS $$
    SELECT ledger_batch(p_process, p_accounts, p_keys, p_settlements, p_details, p_holds, p_calls, p_rows, p_unusual,
        NULL, NULL, NULL, NULL, NULL)
$$;

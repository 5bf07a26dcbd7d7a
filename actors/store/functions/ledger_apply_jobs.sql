-- `ledger_batch` of processes of the previous release, for settlements that end jobs.
CREATE OR REPLACE FUNCTION ledger_apply_jobs(p_jobs json, p_process text, p_accounts ledger_account[], p_keys ledger_key[],
    p_settlements ledger_settlement[], p_details json, p_holds ledger_hold[], p_calls json, p_rows json, p_unusual json)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    applied json := ledger_apply(p_process, p_accounts, p_keys, p_settlements, p_details, p_holds, p_calls, p_rows,
        p_unusual);
BEGIN
    PERFORM jobs_end(p_jobs, ARRAY(SELECT json_array_elements_text(applied -> 'unsettled')::uuid));
    RETURN applied;
END $$;

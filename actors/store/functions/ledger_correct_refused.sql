-- The rows of refused calls that recovery had settled: each replaces recovery's, at no cost.
CREATE OR REPLACE FUNCTION ledger_correct_refused(p_process text, p_rows json, p_calls uuid[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    refused record;
    truth   ledger_settlement;
BEGIN
    FOR refused IN
        SELECT x.* FROM json_to_recordset(p_rows) AS x(request_id uuid, status row_status, error_code text,
            error_message text, unit_count integer, unit_type text, latency_ms bigint, detail json)
        JOIN recovered_calls r ON r.call_id = x.request_id AND r.wrote_row
        WHERE x.request_id = ANY (p_calls)
            AND NOT EXISTS (SELECT FROM call_log_corrections c
                            WHERE c.call_id = x.request_id AND c.cause <> 'duplicate_row')
    LOOP
        truth.call_id := refused.request_id;
        truth.cost := 0;
        truth.status := refused.status;
        truth.latency_ms := refused.latency_ms;
        truth.rare := json_build_object('error_code', refused.error_code, 'error_message', refused.error_message,
            'unit_count', refused.unit_count, 'unit_type', refused.unit_type);
        truth.upstream_cost := 0;
        PERFORM ledger_correct(p_process, 'refused_after_recovery', truth, refused.detail);
    END LOOP;
END $$;

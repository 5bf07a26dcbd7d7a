-- Corrects by the settlements that found no hold because recovery had settled the calls; returns these calls.
-- `p_others`: settlements that were applied, and recovery's own, which are no corrections.
CREATE OR REPLACE FUNCTION ledger_correct_settled(p_process text, p_settlements ledger_settlement[], p_details text,
    p_others uuid[])
RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    late      record;
    corrected uuid[] := '{}';
BEGIN
    FOR late IN
        SELECT p_settlements[d.place::integer] AS settlement, d.detail::json AS detail
        FROM string_to_table(p_details, E'\x1e', 'null') WITH ORDINALITY AS d(detail, place)
        CROSS JOIN LATERAL (SELECT (p_settlements[d.place::integer]).*) r
        WHERE r.status IS NOT NULL AND (r.call_id = ANY (p_others)) IS NOT TRUE
            AND EXISTS (SELECT FROM recovered_calls x WHERE x.call_id = r.call_id)
            AND NOT EXISTS (SELECT FROM call_log_corrections c
                            WHERE c.call_id = r.call_id AND c.cause <> 'duplicate_row')
    LOOP
        IF ledger_correct(p_process, 'settled_after_recovery', late.settlement, late.detail) THEN
            corrected := corrected || (late.settlement).call_id;
        END IF;
    END LOOP;
    RETURN corrected;
END $$;

-- Prepares the settlements of recovery: notes whose calls they were, and returns the settlements to apply. A call that
-- already has its row was refused to its client: its hold is only released. A hold that now belongs to its job is
-- skipped: no call settles it.
CREATE OR REPLACE FUNCTION ledger_recover(p_process text, p_settlements ledger_settlement[], p_calls uuid[])
RETURNS ledger_settlement[] LANGUAGE plpgsql AS $$
DECLARE
    made ledger_settlement[];
    jobs uuid[];
BEGIN
    PERFORM FROM holds WHERE call_id = ANY (p_calls) FOR UPDATE; -- one that is handed over is so before or after
    SELECT array_agg(call_id) INTO jobs FROM holds WHERE call_id = ANY (p_calls) AND process_id IS NULL;
    INSERT INTO recovered_calls (call_id, account_id, process_id, recovered_by, wrote_row)
    SELECT h.call_id, h.account_id, h.process_id, p_process,
        NOT EXISTS (SELECT FROM call_logs l WHERE l.request_id = h.call_id)
    FROM holds h WHERE h.call_id = ANY (p_calls) AND h.process_id IS NOT NULL
    ON CONFLICT DO NOTHING;
    SELECT array_agg(CASE
            WHEN (p_settlements[i.place]).call_id = ANY (jobs) THEN NULL::ledger_settlement
            WHEN r.call_id = ANY (p_calls) AND NOT r.wrote_row
            THEN ROW(r.call_id, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::ledger_settlement
            ELSE p_settlements[i.place] END ORDER BY i.place)
    INTO made
    FROM generate_subscripts(p_settlements, 1) AS i(place)
    LEFT JOIN recovered_calls r ON r.call_id = (p_settlements[i.place]).call_id;
    RETURN made;
END $$;

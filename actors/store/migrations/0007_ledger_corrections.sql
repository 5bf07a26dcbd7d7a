-- A call that recovery settled is corrected when its true settlement comes, and has one row, whoever was quicker. What
-- every batch pays for it is one look at one row of `processes`; the rest happens only where a settlement was not
-- applied.

-- Corrects the row of a call that recovery settled to what became of it: the difference is an entry of its own, the
-- row keeps its id and `created_at` (its place in the log), and what it was before is kept beside it. Returns whether
-- there was such a row: a month that is no longer kept has none. The caller holds the lock of the account.
CREATE FUNCTION ledger_correct(p_process text, p_cause correction_cause, p_true ledger_settlement, p_detail json)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    before     call_logs;
    difference bigint;
BEGIN
    SELECT * INTO before FROM call_logs WHERE request_id = p_true.call_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    difference := before.cost_nano_usd - p_true.cost;
    INSERT INTO call_log_corrections (call_id, account_id, cause, corrected_by, row_id, row_before,
        cost_before_nano_usd, cost_after_nano_usd, booked_nano_usd)
    VALUES (before.request_id, before.account_id, p_cause, p_process, before.id, row_to_json(before),
        before.cost_nano_usd, p_true.cost, difference);
    INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd)
    VALUES (before.account_id, before.key_id, before.request_id, 'correction', difference, 0);
    UPDATE accounts SET balance_nano_usd = balance_nano_usd + difference WHERE id = before.account_id;
    UPDATE key_spend SET spent_nano_usd = spent_nano_usd - difference WHERE key_id = before.key_id;
    UPDATE call_logs SET
        status = p_true.status, error_code = p_true.rare ->> 'error_code',
        error_message = p_true.rare ->> 'error_message', input_tokens = coalesce(p_true.input_tokens, 0),
        output_tokens = coalesce(p_true.output_tokens, 0), cached_tokens = coalesce(p_true.cached_tokens, 0),
        unit_count = (p_true.rare ->> 'unit_count')::integer, unit_type = p_true.rare ->> 'unit_type',
        cost_nano_usd = p_true.cost, latency_ms = p_true.latency_ms, task_id = p_true.rare ->> 'task_id',
        result_urls = p_true.rare -> 'result_urls',
        result_expires_at = to_timestamp((p_true.rare ->> 'result_expires_at')::double precision),
        attempts = p_true.rare -> 'attempts', detail = p_detail
    WHERE request_id = before.request_id AND created_at = before.created_at;
    RETURN true;
END $$;

-- The settlements that found no hold because recovery had been there, corrected; returns their calls. `p_others`:
-- settlements that were applied, and recovery's own, which are no truer than what is there.
CREATE FUNCTION ledger_correct_settled(p_process text, p_settlements ledger_settlement[], p_details json,
    p_others uuid[])
RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    late      record;
    corrected uuid[] := '{}';
BEGIN
    FOR late IN
        SELECT p_settlements[d.place::integer] AS settlement, CASE WHEN r.has_detail THEN d.detail END AS detail
        FROM json_array_elements(p_details) WITH ORDINALITY AS d(detail, place)
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

-- The rows of refused calls that recovery had settled: each takes the place of recovery's, at no cost.
CREATE FUNCTION ledger_correct_refused(p_process text, p_rows json, p_calls uuid[])
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
        PERFORM ledger_correct(p_process, 'refused_after_recovery', truth, refused.detail);
    END LOOP;
END $$;

-- Recovery is about to settle these calls: notes whose they were, and returns the settlements as they shall be made.
-- A call that has its row already was refused to its client: what it holds goes back, and nothing else. A hold that its
-- job has taken over meanwhile is left alone: its settlement is none of any call.
CREATE FUNCTION ledger_recover(p_process text, p_settlements ledger_settlement[], p_calls uuid[])
RETURNS ledger_settlement[] LANGUAGE plpgsql AS $$
DECLARE
    made ledger_settlement[];
    jobs uuid[];
BEGIN
    PERFORM FROM holds WHERE call_id = ANY (p_calls) FOR UPDATE; -- whoever hands one over comes before or after
    SELECT array_agg(call_id) INTO jobs FROM holds WHERE call_id = ANY (p_calls) AND process_id IS NULL;
    INSERT INTO recovered_calls (call_id, account_id, process_id, recovered_by, wrote_row)
    SELECT h.call_id, h.account_id, h.process_id, p_process,
        NOT EXISTS (SELECT FROM call_logs l WHERE l.request_id = h.call_id)
    FROM holds h WHERE h.call_id = ANY (p_calls) AND h.process_id IS NOT NULL
    ON CONFLICT DO NOTHING;
    SELECT array_agg(CASE
            WHEN (p_settlements[i.place]).call_id = ANY (jobs) THEN NULL::ledger_settlement
            WHEN r.call_id = ANY (p_calls) AND NOT r.wrote_row
            THEN ROW(r.call_id, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::ledger_settlement
            ELSE p_settlements[i.place] END ORDER BY i.place)
    INTO made
    FROM generate_subscripts(p_settlements, 1) AS i(place)
    LEFT JOIN recovered_calls r ON r.call_id = (p_settlements[i.place]).call_id;
    RETURN made;
END $$;

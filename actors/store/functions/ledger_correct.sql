-- Corrects the row of a call that recovery settled to its true outcome: the difference is a separate entry, the row
-- keeps its id and `created_at` (its position in the log), and its earlier content is kept in `call_log_corrections`.
-- Returns whether there was such a row: a dropped month has none. The caller holds the lock of the account.
CREATE OR REPLACE FUNCTION ledger_correct(p_process text, p_cause correction_cause, p_true ledger_settlement, p_detail json)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    before     call_logs;
    after      call_logs;
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
    INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd, created_at)
    VALUES (before.account_id, before.key_id, before.request_id, 'correction', difference, 0,
        greatest(now(), (SELECT max(m.ends_at) FROM entry_months m WHERE m.sealed_at IS NOT NULL)));
    UPDATE accounts SET balance_nano_usd = balance_nano_usd + difference WHERE id = before.account_id;
    UPDATE key_spend SET spent_nano_usd = spent_nano_usd - difference WHERE key_id = before.key_id;
    after := before;
    IF before.budgets IS NOT NULL THEN
        -- Which model of a chain served a call that recovery charged nothing for is known only now.
        IF before.cost_nano_usd = 0 THEN
            after.budgets := budget_served(before.budgets, before.model, p_true.rare ->> 'served', true);
        END IF;
        PERFORM budget_correct(after, p_true.cost);
    END IF;
    after.status := p_true.status;
    after.error_code := p_true.rare ->> 'error_code';
    after.error_message := p_true.rare ->> 'error_message';
    after.input_tokens := coalesce(p_true.input_tokens, 0);
    after.output_tokens := coalesce(p_true.output_tokens, 0);
    after.cached_tokens := coalesce(p_true.cached_tokens, 0);
    after.unit_count := (p_true.rare ->> 'unit_count')::integer;
    after.unit_type := p_true.rare ->> 'unit_type';
    after.cost_nano_usd := p_true.cost;
    after.latency_ms := p_true.latency_ms;
    after.task_id := p_true.rare ->> 'task_id';
    after.result_urls := p_true.rare -> 'result_urls';
    after.result_expires_at := to_timestamp((p_true.rare ->> 'result_expires_at')::double precision);
    after.attempts := p_true.rare -> 'attempts';
    after.upstream_cost_nano_usd := p_true.upstream_cost;
    after.channel_id := p_true.channel_id;
    after.detail := p_detail;
    UPDATE call_logs SET
        status = after.status, error_code = after.error_code, error_message = after.error_message,
        input_tokens = after.input_tokens, output_tokens = after.output_tokens, cached_tokens = after.cached_tokens,
        unit_count = after.unit_count, unit_type = after.unit_type, cost_nano_usd = after.cost_nano_usd,
        latency_ms = after.latency_ms, task_id = after.task_id, result_urls = after.result_urls,
        result_expires_at = after.result_expires_at, attempts = after.attempts,
        upstream_cost_nano_usd = after.upstream_cost_nano_usd, channel_id = after.channel_id, detail = after.detail,
        budgets = after.budgets,
        digest = call_log_digest_of(after)
    WHERE request_id = before.request_id AND created_at = before.created_at;
    RETURN true;
END $$;

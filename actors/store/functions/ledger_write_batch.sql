-- Writes the decisions of `ledger_batch`: these settlements, and these holds or the granted ones among them (null:
-- all). `p_admitted`: the holds of those settlements that have none in the table; null: all have one there.
--
-- `p_settled`: the nodes of the calls of `p_admitted` (`budget_parts`), as text; `p_held`: those of the holds; null: none has
-- any. Their sums have what the holds hold, and, if `p_is_drawn`, what those calls hold; else these are booked. What is left
-- to be booked is returned. A call of a chain costs on the nodes of the model that served it (`served` of the settlement),
-- and only releases what its hold has on those of the others; its row has the nodes that pay.
--
-- One statement for everything, because starting one costs as much as several rows.
CREATE OR REPLACE FUNCTION ledger_write_batch(p_process text, p_settlements ledger_settlement[], p_details text,
    p_holds ledger_hold[], p_calls json, p_granted integer[], p_admitted ledger_admitted[],
    p_settled text[], p_held text[], p_is_drawn boolean)
RETURNS ledger_written LANGUAGE plpgsql AS $$
DECLARE
    written ledger_written;
BEGIN
    WITH ended AS MATERIALIZED (
        SELECT s.* FROM ROWS FROM (unnest(p_settlements), string_to_table(p_details, E'\x1e', 'null'), unnest(p_admitted),
            unnest(p_settled)) AS s(call_id, cost, created_at, submitted_at, protocol, model, status, input_tokens,
            output_tokens, cached_tokens, latency_ms, upstream_cost, channel_id, attribution, rare, detail,
            account_id, key_id, amount, budgets)
    ), released AS (
        DELETE FROM holds h USING ended s
        WHERE s.account_id IS NULL AND h.call_id = ANY (ARRAY[s.call_id])
        RETURNING h.call_id, h.account_id, h.key_id, h.amount_nano_usd AS amount, s.cost, s.created_at,
            s.submitted_at, s.protocol, s.model, s.status, s.input_tokens, s.output_tokens, s.cached_tokens,
            s.latency_ms, s.upstream_cost, s.channel_id, s.attribution, s.rare, s.detail, h.budgets AS holding,
            CASE WHEN h.budgets IS NOT NULL AND s.rare ->> 'served' IS NOT NULL
                THEN budget_served(h.budgets, s.model, s.rare ->> 'served', true) ELSE h.budgets END AS budgets,
            true AS is_held
    ), gone AS MATERIALIZED (
        SELECT * FROM released
        UNION ALL
        SELECT call_id, account_id, key_id, amount, cost, created_at, submitted_at, protocol, model, status,
            input_tokens, output_tokens, cached_tokens, latency_ms, upstream_cost, channel_id, attribution, rare, detail,
            budgets::bigint[], budgets::bigint[], p_is_drawn
        FROM ended WHERE account_id IS NOT NULL
    ), granted AS MATERIALIZED (
        SELECT x.call_id, x.account_id, x.key_id, x.amount, x.call, x.seq,
            nullif(x.nodes, '{}')::bigint[] AS budgets
        FROM ROWS FROM (unnest(p_holds), json_array_elements(p_calls), unnest(p_held)) AS x(
            seq, call_id, account_id, key_id, amount, cap, call, nodes)
        WHERE (p_granted IS NULL OR x.seq = ANY (p_granted))
            AND NOT EXISTS (SELECT FROM holds open WHERE open.call_id = ANY (ARRAY[x.call_id]))
    ), opened AS (
        INSERT INTO holds (call_id, account_id, key_id, process_id, amount_nano_usd, call, budgets)
        SELECT call_id, account_id, key_id, p_process, amount, call, budgets FROM granted
    ), moved AS MATERIALIZED (
        SELECT account_id, key_id, call_id, -cost AS amount, -amount AS held,
            -- A delivery free of charge is still a settlement; no delivery is a refund.
            CASE WHEN cost <> 0 OR status = 'success' THEN 'settle'::entry_kind ELSE 'refund' END AS kind
        FROM gone
        UNION ALL
        SELECT account_id, key_id, call_id, 0, amount, 'hold' FROM granted
        UNION ALL
        SELECT account_id, key_id, call_id, 0, amount, 'hold' FROM ended WHERE account_id IS NOT NULL
    ), entry AS (
        INSERT INTO entries (account_id, key_id, call_id, kind, amount_nano_usd, held_nano_usd, created_at)
        SELECT account_id, key_id, call_id, kind, amount, held,
            -- Never into a month that has its checkpoint, though the clock went back.
            greatest(now(), (SELECT m.ends_at FROM entry_months m WHERE m.sealed_at IS NOT NULL
                             ORDER BY m.ends_at DESC LIMIT 1))
        FROM moved
    ), of_account AS (
        UPDATE accounts a
        SET balance_nano_usd = a.balance_nano_usd + t.amount, held_nano_usd = a.held_nano_usd + t.held
        FROM (SELECT account_id, sum(amount) AS amount, sum(held) AS held FROM moved GROUP BY account_id) t
        WHERE a.id = ANY (ARRAY[t.account_id])
        RETURNING a.id, a.balance_nano_usd, a.held_nano_usd, a.leased_nano_usd
    ), of_key AS (
        UPDATE key_spend k
        SET spent_nano_usd = k.spent_nano_usd - t.amount, held_nano_usd = k.held_nano_usd + t.held
        FROM (SELECT key_id, sum(amount) AS amount, sum(held) AS held FROM moved GROUP BY key_id) t
        WHERE k.key_id = ANY (ARRAY[t.key_id])
    ), logged AS (
        INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol, model,
            status, error_code, error_message, input_tokens, output_tokens, cached_tokens,
            unit_count, unit_type, cost_nano_usd, latency_ms, task_id, result_urls,
            result_expires_at, attempts, upstream_cost_nano_usd, channel_id, detail, attribution,
            budgets, digest)
        SELECT n.*, call_log_digest_whole(call_log_digest(account_id, key_id, call_id, ended_at, submitted_at, protocol,
            model, status, error_code, error_message, input_tokens, output_tokens, cached_tokens, unit_count, unit_type,
            cost, latency_ms, task_id, result_urls, result_expires_at, attempts, upstream_cost, channel_id, detail), attribution)
        FROM (
            SELECT to_timestamp(created_at) AS ended_at, to_timestamp(submitted_at) AS submitted_at, account_id, key_id, call_id, protocol, model, status,
                rare ->> 'error_code' AS error_code, rare ->> 'error_message' AS error_message,
                input_tokens, output_tokens, cached_tokens, (rare ->> 'unit_count')::integer AS unit_count,
                rare ->> 'unit_type' AS unit_type, cost, latency_ms, rare ->> 'task_id' AS task_id,
                rare -> 'result_urls' AS result_urls,
                to_timestamp((rare ->> 'result_expires_at')::double precision) AS result_expires_at,
                rare -> 'attempts' AS attempts, upstream_cost, channel_id, detail::json AS detail, attribution, budgets
            FROM gone WHERE status IS NOT NULL
            OFFSET 0) n -- what the digest needs too is computed once
    )
    SELECT array_agg(call_id),
        array_agg((cost, budgets)::budget_charge) FILTER (WHERE is_held AND budgets IS NOT NULL)
            || array_agg((0, budget_served(holding, model, rare ->> 'served', false))::budget_charge)
                FILTER (WHERE is_held AND budgets IS DISTINCT FROM holding),
        (SELECT json_agg(json_build_array(id, balance_nano_usd, held_nano_usd, leased_nano_usd)) FROM of_account)
    INTO written.settled, written.budgets, written.accounts FROM gone;
    RETURN written;
END $$;

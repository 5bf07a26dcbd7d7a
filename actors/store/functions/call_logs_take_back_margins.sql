-- Subtracts changed or deleted rows from the sums of the operator's costs (`call_logs_roll_up`): those that
-- `call_logs_take_back` subtracts.
--
-- A row older than that table is in none of its sums and may make one negative. `call_log_rollups` loses the row too,
-- so that the difference of both still is what was counted there alone.
CREATE OR REPLACE FUNCTION call_logs_take_back_margins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO call_log_margins AS m
    SELECT (created_at AT TIME ZONE 'UTC')::date, account_id, model,
        coalesce(channel_id, '') || CASE WHEN upstream_cost_nano_usd IS NULL THEN ' ?' ELSE '' END, -count(*),
        count(upstream_cost_nano_usd) - count(*), -sum(cost_nano_usd), coalesce(-sum(upstream_cost_nano_usd), 0)
    FROM (SELECT * FROM old_rows o WHERE EXISTS (SELECT FROM call_log_corrections c
                                                 WHERE c.call_id = o.request_id AND c.row_id = o.id)
              OR TG_OP = 'DELETE' AND o.cost_nano_usd <> 0) recorded
    GROUP BY 1, 2, 3, 4
    ON CONFLICT (day, account_id, model, channel_id) DO UPDATE SET
        requests = m.requests + excluded.requests,
        unknown_costs = m.unknown_costs + excluded.unknown_costs,
        cost_nano_usd = m.cost_nano_usd + excluded.cost_nano_usd,
        upstream_cost_nano_usd = m.upstream_cost_nano_usd + excluded.upstream_cost_nano_usd;
    DELETE FROM call_log_margins WHERE requests = 0 AND unknown_costs = 0 AND cost_nano_usd = 0
        AND upstream_cost_nano_usd = 0 AND account_id IN (SELECT account_id FROM old_rows);
    RETURN NULL;
END $$;

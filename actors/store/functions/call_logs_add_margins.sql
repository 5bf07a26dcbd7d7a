-- Adds new rows of the log to the sums of the operator's costs, under the same lock as `call_logs_roll_up`. Calls of
-- unknown cost have separate sums, under the channel's id with a blank and a question mark appended: no id has a blank.
CREATE OR REPLACE FUNCTION call_logs_add_margins() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO call_log_margins AS m
    SELECT (n.created_at AT TIME ZONE 'UTC')::date, n.account_id, n.model,
        coalesce(n.channel_id, '') || CASE WHEN n.upstream_cost_nano_usd IS NULL THEN ' ?' ELSE '' END, count(*),
        count(*) - count(n.upstream_cost_nano_usd), sum(n.cost_nano_usd), coalesce(sum(n.upstream_cost_nano_usd), 0)
    FROM new_rows n
    GROUP BY 1, 2, 3, 4
    ON CONFLICT (day, account_id, model, channel_id) DO UPDATE SET
        requests = m.requests + excluded.requests,
        unknown_costs = m.unknown_costs + excluded.unknown_costs,
        cost_nano_usd = m.cost_nano_usd + excluded.cost_nano_usd,
        upstream_cost_nano_usd = m.upstream_cost_nano_usd + excluded.upstream_cost_nano_usd;
    RETURN NULL;
END $$;

-- Writes `budget.warning` or `budget.exhausted` of a sum.
CREATE OR REPLACE FUNCTION budget_event(p_type text, p_sum budget_sums, p_percent integer) RETURNS void LANGUAGE sql AS $$
    SELECT event_write(p_sum.account_id, p_type, json_build_object(
        'budget_id', p_sum.budget_id, 'name', n.name, 'scope', n.scope, 'subject', nullif(n.about, ''),
        'percent', p_percent, 'limit_usd', usd_text(n.limit_nano_usd), 'spent_usd', usd_text(p_sum.spent_nano_usd),
        'held_usd', usd_text(p_sum.held_nano_usd), 'period_from', instant_text(p_sum.period_from),
        'resets_at', instant_text(p_sum.period_to)))
    FROM budget_node(p_sum.account_id, p_sum.budget_id, p_sum.subject, p_sum.limit_nano_usd, true) n
$$;

-- Writes the warnings of a sum that are due by what it has spent, each once, and sets when the next one is.
CREATE OR REPLACE FUNCTION budget_warn(p_sum budget_sums) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    node    record;
    percent smallint;
    is_told boolean;
BEGIN
    SELECT * INTO node
    FROM budget_node(p_sum.account_id, p_sum.budget_id, p_sum.subject, p_sum.limit_nano_usd, true);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOR percent IN
        SELECT DISTINCT w FROM unnest(node.warn_at) w
        WHERE w <> ALL (p_sum.warned) AND p_sum.spent_nano_usd > 0
            AND p_sum.spent_nano_usd::numeric * 100 >= node.limit_nano_usd::numeric * w
        ORDER BY w
    LOOP
        p_sum.warned := p_sum.warned || percent;
        PERFORM budget_event('budget.warning', p_sum, percent);
    END LOOP;
    IF node.action = 'warn' AND p_sum.exhausted_at IS NULL AND p_sum.spent_nano_usd > 0
        AND p_sum.spent_nano_usd >= node.limit_nano_usd
    THEN
        p_sum.exhausted_at := clock_timestamp();
        PERFORM budget_event('budget.exhausted', p_sum, 100);
    END IF;
    is_told := node.action <> 'warn' OR p_sum.exhausted_at IS NOT NULL;
    UPDATE budget_sums s SET warned = p_sum.warned, exhausted_at = p_sum.exhausted_at,
        alarm_nano_usd = budget_alarm(node.limit_nano_usd, node.warn_at, p_sum.warned, is_told)
    WHERE s.account_id = p_sum.account_id AND s.budget_id = p_sum.budget_id AND s.subject = p_sum.subject
        AND s.period_from = p_sum.period_from;
END $$;

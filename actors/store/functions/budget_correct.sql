-- Books the correction of a call's cost to the sums of its nodes, in the periods of its hold. What was held of it has been
-- released long ago and may be spent by others: all that the cost rises by is excess, and what it falls by makes room.
CREATE OR REPLACE FUNCTION budget_correct(p_row call_logs, p_cost bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    sum budget_sums;
BEGIN
    FOR sum IN
        UPDATE budget_sums s SET spent_nano_usd = s.spent_nano_usd + p_cost - p_row.cost_nano_usd,
            excess_nano_usd = s.excess_nano_usd + (p_cost - least(p_cost, p_row.cost_nano_usd, n.held))
                - (p_row.cost_nano_usd - least(p_row.cost_nano_usd, n.held))
        FROM budget_parts(p_row.budgets) n
        WHERE s.id = n.sum
        RETURNING s.*
    LOOP
        IF sum.spent_nano_usd >= sum.alarm_nano_usd THEN
            PERFORM budget_warn(sum);
        END IF;
        PERFORM budget_uncovered(sum);
    END LOOP;
END $$;

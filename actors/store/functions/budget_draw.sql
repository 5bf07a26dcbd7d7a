-- Holds a call that was admitted in memory: out of what the limit leaves free beside the leases, and what that does not
-- cover out of the lease of the process that admitted it. Returns its nodes with what could be held: less than was admitted
-- only where the lease had been taken from a silent process; what the call costs beyond that is excess.
--
-- p_cost  of a call that has ended, which needs no more; null: it is under way
CREATE OR REPLACE FUNCTION budget_draw(p_process text, p_cost bigint, p_budgets bigint[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    part   record;
    sum    budget_sums;
    most   bigint;
    free   bigint;
    drawn  bigint;
    amount bigint;
    held   bigint[] := '{}';
BEGIN
    FOR part IN SELECT * FROM budget_parts(p_budgets) LOOP
        amount := least(part.held, p_cost);
        SELECT * INTO sum FROM budget_sums s WHERE s.id = ANY (ARRAY[part.sum]);
        SELECT b.limit_nano_usd INTO most FROM budgets b WHERE b.id = ANY (ARRAY[sum.budget_id]);
        most := coalesce(most, sum.limit_nano_usd);
        free := greatest(0, coalesce(most - sum.spent_nano_usd - sum.held_nano_usd - sum.leased_nano_usd, 0));
        drawn := 0;
        IF amount > free THEN
            SELECT least(amount - free, l.amount_nano_usd) INTO drawn FROM budget_leases l
            WHERE l.process_id = p_process AND l.account_id = sum.account_id AND l.budget_id = sum.budget_id
                AND l.subject = sum.subject AND l.period_from = sum.period_from;
            drawn := coalesce(drawn, 0);
            UPDATE budget_leases l SET amount_nano_usd = l.amount_nano_usd - drawn
            WHERE l.process_id = p_process AND l.account_id = sum.account_id AND l.budget_id = sum.budget_id
                AND l.subject = sum.subject AND l.period_from = sum.period_from;
            amount := free + drawn;
        END IF;
        UPDATE budget_sums s SET held_nano_usd = s.held_nano_usd + amount, leased_nano_usd = s.leased_nano_usd - drawn,
            bound_nano_usd = CASE WHEN amount > drawn THEN most ELSE s.bound_nano_usd END,
            last_hold_at = clock_timestamp()
        WHERE s.id = ANY (ARRAY[part.sum]);
        held := held || part.sum || amount;
    END LOOP;
    RETURN held;
END $$;

-- Holds a call that was admitted in memory: out of what the limit leaves free beside the leases, and what that does not
-- cover out of the lease of the process that admitted it. Returns its nodes with what could be held: less than was admitted
-- only where the lease had been taken from a silent process; what the call costs beyond that is excess.
--
-- p_cost  of a call that has ended, which needs no more; null: it is under way
CREATE OR REPLACE FUNCTION budget_draw(p_process text, p_account text, p_cost bigint, p_budgets json)
RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    part  record;
    sum   budget_sums;
    most  bigint;
    free  bigint;
    drawn bigint;
    held  json[] := '{}';
BEGIN
    FOR part IN
        SELECT n ->> 0 AS id, n ->> 1 AS subject, (n ->> 2)::timestamptz AS begins,
            least((n ->> 3)::bigint, p_cost) AS amount
        FROM json_array_elements(p_budgets) n
    LOOP
        SELECT * INTO sum FROM budget_sums s
        WHERE s.account_id = ANY (ARRAY[p_account]) AND s.budget_id = ANY (ARRAY[part.id])
            AND s.subject = ANY (ARRAY[part.subject]) AND s.period_from = ANY (ARRAY[part.begins]);
        SELECT b.limit_nano_usd INTO most FROM budgets b WHERE b.id = ANY (ARRAY[part.id]);
        most := coalesce(most, sum.limit_nano_usd);
        free := greatest(0, coalesce(most - sum.spent_nano_usd - sum.held_nano_usd - sum.leased_nano_usd, 0));
        drawn := 0;
        IF part.amount > free THEN
            SELECT least(part.amount - free, l.amount_nano_usd) INTO drawn FROM budget_leases l
            WHERE l.process_id = p_process AND l.account_id = p_account AND l.budget_id = part.id
                AND l.subject = part.subject AND l.period_from = part.begins;
            drawn := coalesce(drawn, 0);
            UPDATE budget_leases l SET amount_nano_usd = l.amount_nano_usd - drawn
            WHERE l.process_id = p_process AND l.account_id = p_account AND l.budget_id = part.id
                AND l.subject = part.subject AND l.period_from = part.begins;
            part.amount := free + drawn;
        END IF;
        UPDATE budget_sums s SET held_nano_usd = s.held_nano_usd + part.amount, leased_nano_usd = s.leased_nano_usd - drawn,
            bound_nano_usd = CASE WHEN part.amount > drawn THEN most ELSE s.bound_nano_usd END,
            last_hold_at = clock_timestamp()
        WHERE s.account_id = p_account AND s.budget_id = part.id AND s.subject = part.subject AND s.period_from = part.begins;
        held := held || json_build_array(part.id, part.subject, part.begins, part.amount);
    END LOOP;
    RETURN array_to_json(held);
END $$;

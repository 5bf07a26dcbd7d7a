-- Books what was written to the sums of its nodes: of a hold what it holds; of a settlement its cost, less its hold. Writes
-- the warnings that are due. Where a sum's limit does not cover what is leased of it any more, the leases of the account
-- are called back. Returns how much of the costs their holds did not cover. The caller has locked the accounts.
--
-- p_moves [[account_id, cost, is_held, budgets], …]; `cost` null: a hold. `is_held`: the sums have the hold: it is released.
CREATE OR REPLACE FUNCTION budget_book(p_moves json) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    booked    record;
    exceeding bigint := 0;
BEGIN
    FOR booked IN
        WITH parts AS MATERIALIZED (
            SELECT m ->> 0 AS account_id, n ->> 0 AS budget_id, n ->> 1 AS subject, (n ->> 2)::timestamptz AS period_from,
                (n ->> 3)::bigint AS held, (m ->> 1)::bigint AS cost, (m ->> 2)::boolean AS is_held
            FROM json_array_elements(p_moves) m, json_array_elements(m -> 3) n
        ), moved AS MATERIALIZED (
            SELECT account_id, budget_id, subject, period_from,
                coalesce(sum(cost), 0) AS spent,
                coalesce(sum(CASE WHEN is_held THEN -held WHEN cost IS NULL THEN held END), 0) AS held,
                coalesce(sum(cost - held) FILTER (WHERE cost > held), 0) AS excess
            FROM parts GROUP BY 1, 2, 3, 4
        )
        UPDATE budget_sums s SET
            spent_nano_usd = s.spent_nano_usd + m.spent, held_nano_usd = s.held_nano_usd + m.held,
            excess_nano_usd = s.excess_nano_usd + m.excess,
            overshoot_nano_usd = greatest(s.overshoot_nano_usd,
                s.spent_nano_usd + m.spent + s.held_nano_usd + m.held - s.excess_nano_usd - m.excess - s.bound_nano_usd),
            last_hold_at = clock_timestamp()
        FROM moved m
        WHERE s.account_id = ANY (ARRAY[m.account_id]) AND s.budget_id = ANY (ARRAY[m.budget_id])
            AND s.subject = ANY (ARRAY[m.subject]) AND s.period_from = ANY (ARRAY[m.period_from])
        RETURNING s AS sum, m.excess
    LOOP
        exceeding := exceeding + booked.excess;
        IF (booked.sum).spent_nano_usd >= (booked.sum).alarm_nano_usd THEN
            PERFORM budget_warn(booked.sum);
        END IF;
        IF booked.excess > 0 AND (booked.sum).leased_nano_usd > 0 THEN
            PERFORM budget_uncovered(booked.sum);
        END IF;
    END LOOP;
    RETURN exceeding;
END $$;

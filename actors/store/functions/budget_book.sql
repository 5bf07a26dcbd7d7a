-- Books what was written to the sums of its nodes: of a hold what it holds; of a settlement its cost, less its hold. Writes
-- the warnings that are due. Where a sum's limit does not cover what is leased of it any more, the leases of the account
-- are called back. Returns how much of the costs their holds did not cover. The caller has locked the accounts.
--
-- p_moves [[account_id, cost, is_held, budgets], …]; `cost` null: a hold. `is_held`: the sums have the hold: it is released.
CREATE OR REPLACE FUNCTION budget_book(p_moves json) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    exceeding bigint;
    due       budget_sums[];
    sum       budget_sums;
BEGIN
    WITH moved AS MATERIALIZED (
        SELECT account_id, budget_id, subject, period_from::timestamptz AS period_from,
            coalesce(sum(cost), 0)::bigint AS spent,
            coalesce(sum(CASE WHEN is_held THEN -held WHEN cost IS NULL THEN held END), 0)::bigint AS held,
            coalesce(sum(cost - held) FILTER (WHERE cost > held), 0)::bigint AS excess
        FROM (
            SELECT m ->> 0 AS account_id, n ->> 0 AS budget_id, n ->> 1 AS subject, n ->> 2 AS period_from,
                (n ->> 3)::bigint AS held, (m ->> 1)::bigint AS cost, (m ->> 2)::boolean AS is_held
            FROM json_array_elements(p_moves) m, json_array_elements(m -> 3) n) p
        GROUP BY 1, 2, 3, 4
    ), booked AS (
        UPDATE budget_sums s SET
            spent_nano_usd = s.spent_nano_usd + m.spent, held_nano_usd = s.held_nano_usd + m.held,
            excess_nano_usd = s.excess_nano_usd + m.excess,
            overshoot_nano_usd = greatest(s.overshoot_nano_usd,
                s.spent_nano_usd + m.spent + s.held_nano_usd + m.held - s.excess_nano_usd - m.excess - s.bound_nano_usd),
            last_hold_at = clock_timestamp()
        FROM moved m
        WHERE s.account_id = ANY (ARRAY[m.account_id]) AND s.budget_id = ANY (ARRAY[m.budget_id])
            AND s.subject = ANY (ARRAY[m.subject]) AND s.period_from = ANY (ARRAY[m.period_from])
        RETURNING m.excess, CASE WHEN s.spent_nano_usd >= s.alarm_nano_usd OR m.excess > 0 AND s.leased_nano_usd > 0 THEN s END
            AS due
    )
    SELECT coalesce(sum(booked.excess), 0), array_agg(booked.due)
        FILTER (WHERE (booked.due).account_id IS NOT NULL)
    INTO exceeding, due FROM booked;
    IF due IS NOT NULL THEN
        FOREACH sum IN ARRAY due LOOP
            IF sum.spent_nano_usd >= sum.alarm_nano_usd THEN
                PERFORM budget_warn(sum);
            END IF;
            PERFORM budget_uncovered(sum);
        END LOOP;
    END IF;
    RETURN exceeding;
END $$;

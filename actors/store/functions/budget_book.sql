-- Books what many calls move the sums of their nodes by, each sum once, or nothing: where a limit does not cover what is
-- needed of it beside the leases. Writes the warnings that are due. Where a sum's limit does not cover what is leased of it
-- any more, the leases of the account are called back. Returns how much of the costs their holds did not cover. The caller
-- has locked the accounts.
CREATE OR REPLACE FUNCTION budget_book(p_moves budget_move[], OUT is_covered boolean, OUT exceeding bigint)
LANGUAGE plpgsql AS $$
DECLARE
    due budget_sums[];
    sum budget_sums;
BEGIN
    WITH moved AS MATERIALIZED (
        SELECT m.*, b.most, m.needed = 0 OR coalesce(m.needed <= b.room, false) AS is_covered
        FROM unnest(p_moves) m LEFT JOIN LATERAL (
            SELECT n.most, n.most - s.spent_nano_usd - s.held_nano_usd - s.leased_nano_usd AS room
            FROM budget_sums s, LATERAL (SELECT coalesce((
                SELECT b.limit_nano_usd FROM budgets b WHERE b.id = ANY (ARRAY[s.budget_id])), s.limit_nano_usd) AS most) n
            WHERE m.needed > 0 AND s.id = ANY (ARRAY[m.sum])) b ON true
    ), booked AS (
        UPDATE budget_sums s SET
            spent_nano_usd = s.spent_nano_usd + m.spent, held_nano_usd = s.held_nano_usd + m.held,
            excess_nano_usd = s.excess_nano_usd + m.excess, bound_nano_usd = coalesce(m.most, s.bound_nano_usd),
            overshoot_nano_usd = greatest(s.overshoot_nano_usd, s.spent_nano_usd + m.spent + s.held_nano_usd + m.held
                - s.excess_nano_usd - m.excess - coalesce(m.most, s.bound_nano_usd)),
            last_hold_at = clock_timestamp()
        FROM moved m
        WHERE s.id = ANY (ARRAY[m.sum]) AND (SELECT bool_and(o.is_covered) FROM moved o)
        RETURNING m.excess, CASE WHEN s.spent_nano_usd >= s.alarm_nano_usd OR m.excess > 0 AND s.leased_nano_usd > 0 THEN s END
            AS due
    )
    SELECT (SELECT bool_and(m.is_covered) FROM moved m), coalesce(sum(b.excess), 0), array_agg(b.due)
        FILTER (WHERE (b.due).account_id IS NOT NULL)
    INTO is_covered, exceeding, due FROM booked b;
    IF due IS NOT NULL THEN
        FOREACH sum IN ARRAY due LOOP
            IF sum.spent_nano_usd >= sum.alarm_nano_usd THEN
                PERFORM budget_warn(sum);
            END IF;
            PERFORM budget_uncovered(sum);
        END LOOP;
    END IF;
END $$;

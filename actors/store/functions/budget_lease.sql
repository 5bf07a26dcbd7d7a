-- Changes what a process leases of nodes; returns [[account_id, budget_id, subject, sum, seconds_left, amount,
-- is_above, limit]] of them. The caller has locked the accounts.
--
-- p_changes [[account_id, budget_id, subject, sum, change, least], …]. A negative change gives back what was leased of that
-- sum; any other is of the present period's, at most a quarter of what is available, and at least `least`.
-- `seconds_left` of it, by the database's clock; null: it does not end, or has ended. `is_above`: it stands at its limit or
-- above. `limit`: of a run. No row: there is no such node, or it has not begun.
CREATE OR REPLACE FUNCTION budget_lease(p_process text, p_changes json) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    want   record;
    node   budgets;
    sum    budget_sums;
    since  timestamptz;
    until  timestamptz;
    most   bigint;
    change bigint;
    leased bigint;
    leases json[] := '{}';
BEGIN
    FOR want IN
        SELECT c ->> 0 AS account_id, c ->> 1 AS budget_id, c ->> 2 AS subject, (c ->> 3)::bigint AS sum,
            (c ->> 4)::bigint AS change, (c ->> 5)::bigint AS least
        FROM json_array_elements(p_changes) c
    LOOP
        IF want.change < 0 THEN
            SELECT least(l.amount_nano_usd, -want.change), l.amount_nano_usd, s.period_from INTO change, leased, since
            FROM budget_sums s JOIN budget_leases l ON l.process_id = ANY (ARRAY[p_process])
                AND l.account_id = ANY (ARRAY[s.account_id]) AND l.budget_id = ANY (ARRAY[s.budget_id])
                AND l.subject = ANY (ARRAY[s.subject]) AND l.period_from = ANY (ARRAY[s.period_from])
            WHERE s.id = ANY (ARRAY[want.sum]);
            IF FOUND THEN
                UPDATE budget_sums s SET leased_nano_usd = s.leased_nano_usd - change WHERE s.id = ANY (ARRAY[want.sum]);
                UPDATE budget_leases l SET amount_nano_usd = l.amount_nano_usd - change
                WHERE l.process_id = p_process AND l.account_id = want.account_id AND l.budget_id = want.budget_id
                    AND l.subject = want.subject AND l.period_from = since;
                DELETE FROM budget_leases l
                WHERE l.process_id = p_process AND l.account_id = want.account_id AND l.budget_id = want.budget_id
                    AND l.subject = want.subject AND l.period_from = since AND l.amount_nano_usd = 0;
            END IF;
            leases := leases || json_build_array(want.account_id, want.budget_id, want.subject, want.sum, NULL,
                coalesce(leased - change, 0), false, NULL);
            CONTINUE;
        END IF;
        IF want.budget_id = 'run' THEN
            SELECT * INTO sum FROM budget_sums s
            WHERE s.account_id = ANY (ARRAY[want.account_id]) AND s.budget_id = ANY (ARRAY['run'])
                AND s.subject = ANY (ARRAY[want.subject]);
            CONTINUE WHEN NOT FOUND;
            most := sum.limit_nano_usd;
        ELSE
            SELECT * INTO node FROM budgets b
            WHERE b.id = ANY (ARRAY[want.budget_id]) AND b.account_id = want.account_id AND b.deleted_at IS NULL;
            CONTINUE WHEN NOT FOUND;
            SELECT period_from, period_to INTO since, until
            FROM budget_now(node.id, node.period, node.time_zone, node.starts_at);
            CONTINUE WHEN since IS NULL;
            most := node.limit_nano_usd;
            sum := budget_sum_open(want.account_id, want.budget_id, want.subject, since, until, most, node.action,
                node.warn_at);
        END IF;
        change := least(want.change, (most - sum.spent_nano_usd - sum.held_nano_usd - sum.leased_nano_usd) / 4);
        IF change > 0 AND change >= want.least AND EXISTS (
            SELECT FROM leases l JOIN accounts a ON a.id = l.account_id
            WHERE l.process_id = ANY (ARRAY[p_process]) AND l.account_id = ANY (ARRAY[want.account_id])
                AND l.called_at IS NULL AND (a.unleased_until > clock_timestamp()) IS NOT TRUE)
        THEN
            INSERT INTO budget_leases AS l (process_id, account_id, budget_id, subject, period_from, amount_nano_usd)
            VALUES (p_process, want.account_id, want.budget_id, want.subject, sum.period_from, change)
            ON CONFLICT (process_id, account_id, budget_id, subject, period_from)
            DO UPDATE SET amount_nano_usd = l.amount_nano_usd + excluded.amount_nano_usd;
            UPDATE budget_sums s SET leased_nano_usd = s.leased_nano_usd + change, bound_nano_usd = most,
                last_hold_at = clock_timestamp()
            WHERE s.id = ANY (ARRAY[sum.id]);
        END IF;
        leases := leases || budget_leased(p_process, sum, most);
    END LOOP;
    RETURN array_to_json(leases);
END $$;

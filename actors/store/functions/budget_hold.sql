-- Holds a call on all the nodes that it matches, or on none. The caller has locked the account.
--
-- p_nodes [[budget_id, subject, amount, ceiling], …]; an amount of 0 is always admitted, and that of a `warn` node is 0.
--
-- Returns {held, warned: [budget_id]}, `held` as the text of {sum, held, …}, or {reason, budget}: `budget` where the
-- amount passes what is neither spent nor held, with the figures of the node that has least left, then the smaller id;
-- `leased` where only leases of processes are in the way; `too_many_runs`; `stale_budgets` where a node is gone.
CREATE OR REPLACE FUNCTION budget_hold(p_account text, p_nodes json) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    want      record;
    node      budgets;
    sum       budget_sums;
    since     timestamptz;
    until     timestamptz;
    most      bigint;    -- its limit
    remaining bigint;
    reason    text;
    is_leased boolean := false;
    worst     json;
    worst_id  text;
    worst_has bigint;
    refusing  budget_sums[] := '{}';
    warned    text[] := '{}';
    taken     bigint[] := '{}';
    sums      bigint[] := '{}';
    amounts   bigint[] := '{}';
    limits    bigint[] := '{}';
BEGIN
    FOR want IN
        SELECT n ->> 0 AS id, n ->> 1 AS subject, (n ->> 2)::bigint AS amount, (n ->> 3)::bigint AS ceiling
        FROM json_array_elements(p_nodes) n
    LOOP
        IF want.id = 'run' THEN
            IF want.ceiling IS NOT NULL THEN
                reason := budget_run(p_account, want.subject, want.ceiling);
                IF reason IS NOT NULL THEN
                    RETURN json_build_object('reason', reason);
                END IF;
            END IF;
            SELECT * INTO sum FROM budget_sums s
            WHERE s.account_id = ANY (ARRAY[p_account]) AND s.budget_id = ANY (ARRAY['run'])
                AND s.subject = ANY (ARRAY[want.subject]);
            CONTINUE WHEN NOT FOUND;
            most := sum.limit_nano_usd;
        ELSE
            SELECT * INTO node FROM budgets b
            WHERE b.id = ANY (ARRAY[want.id]) AND b.account_id = p_account AND b.deleted_at IS NULL;
            IF NOT FOUND THEN
                RETURN json_build_object('reason', 'stale_budgets');
            END IF;
            SELECT period_from, period_to INTO since, until
            FROM budget_now(node.id, node.period, node.time_zone, node.starts_at);
            CONTINUE WHEN since IS NULL; -- it has not begun
            most := node.limit_nano_usd;
            SELECT * INTO sum FROM budget_sums s
            WHERE s.account_id = ANY (ARRAY[p_account]) AND s.budget_id = ANY (ARRAY[want.id])
                AND s.subject = ANY (ARRAY[want.subject]) AND s.period_from = ANY (ARRAY[since]);
            IF NOT FOUND THEN
                sum := budget_sum_open(p_account, want.id, want.subject, since, until, most, node.action, node.warn_at);
            END IF;
            IF node.action = 'warn' THEN
                want.amount := 0;
                IF sum.spent_nano_usd >= most THEN
                    warned := warned || want.id;
                END IF;
            END IF;
        END IF;
        remaining := greatest(0, most - sum.spent_nano_usd - sum.held_nano_usd);
        IF want.amount > remaining THEN
            refusing := refusing || sum;
            IF worst IS NULL OR remaining < worst_has OR remaining = worst_has AND want.id COLLATE "C" < worst_id COLLATE "C" THEN
                worst_has := remaining;
                worst_id := want.id;
                worst := json_build_object('budget_id', want.id, 'subject', want.subject,
                    'needed_nano_usd', want.amount, 'remaining_nano_usd', remaining, 'limit_nano_usd', most,
                    'spent_nano_usd', sum.spent_nano_usd, 'held_nano_usd', sum.held_nano_usd,
                    'resets_at', extract(epoch FROM sum.period_to)::float8);
            END IF;
        ELSIF want.amount > 0 AND want.amount > remaining - sum.leased_nano_usd THEN
            is_leased := true;
        END IF;
        sums := sums || sum.id;
        amounts := amounts || want.amount;
        limits := limits || most;
        taken := taken || sum.id || want.amount;
    END LOOP;
    IF worst IS NOT NULL THEN
        FOREACH sum IN ARRAY refusing LOOP
            CONTINUE WHEN sum.exhausted_at IS NOT NULL;
            UPDATE budget_sums s SET exhausted_at = clock_timestamp()
            WHERE s.account_id = p_account AND s.budget_id = sum.budget_id AND s.subject = sum.subject
                AND s.period_from = sum.period_from;
            PERFORM budget_event('budget.exhausted', sum, 100);
        END LOOP;
        RETURN json_build_object('reason', 'budget', 'budget', worst);
    END IF;
    IF is_leased THEN
        RETURN json_build_object('reason', 'leased');
    END IF;
    UPDATE budget_sums s SET held_nano_usd = s.held_nano_usd + t.amount, last_hold_at = clock_timestamp(),
        bound_nano_usd = CASE WHEN t.amount > 0 THEN t.most ELSE s.bound_nano_usd END
    FROM unnest(sums, amounts, limits) AS t(id, amount, most)
    WHERE s.id = ANY (ARRAY[t.id]);
    RETURN json_build_object('held', taken::text, 'warned', array_to_json(warned));
END $$;

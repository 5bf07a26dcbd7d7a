-- Calls back the leases of the account if something is leased of this sum which the limit does not cover beside what it has
-- spent and holds.
CREATE OR REPLACE FUNCTION budget_uncovered(p_sum budget_sums) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_sum.leased_nano_usd > greatest(0, (
        SELECT n.limit_nano_usd FROM budget_node(p_sum.account_id, p_sum.budget_id, p_sum.subject, p_sum.limit_nano_usd, true) n
    ) - p_sum.spent_nano_usd - p_sum.held_nano_usd) THEN
        PERFORM leases_call_back(p_sum.account_id);
    END IF;
END $$;

-- Returns whether spans of these accounts that end after an instant have sums of their own; for those that are being made it
-- waits, and keeps others from making them until the transaction ends (`attributed_build`).
CREATE OR REPLACE FUNCTION attributed_await(p_accounts text[], p_from timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM call_log_attributed_built
    WHERE start > p_from - interval '1 day' AND start > p_from - hours * interval '1 hour' AND NOT is_built
        AND account_id = ANY (p_accounts) FOR SHARE;
    RETURN EXISTS (SELECT FROM call_log_attributed_built
            WHERE hours = 3 AND start > p_from - interval '3 hours' AND account_id = ANY (p_accounts) AND is_built)
        OR EXISTS (SELECT FROM call_log_attributed_built
            WHERE hours = 24 AND start > p_from - interval '1 day' AND account_id = ANY (p_accounts) AND is_built);
END $$;

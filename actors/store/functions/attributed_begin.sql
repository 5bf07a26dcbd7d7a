-- Writes down that the sums of an account's spans that are over are begun, under its lock, so that each later batch finds them
-- (`attributed_build`).
CREATE OR REPLACE FUNCTION attributed_begin(p_account text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM accounts WHERE id = p_account FOR NO KEY UPDATE;
    INSERT INTO call_log_attributed_built (account_id, hours, start)
    SELECT p_account, s.hours, s.start
    FROM (SELECT day, max(stored) AS stored FROM attribution_counts WHERE account_id = p_account GROUP BY 1) c
    CROSS JOIN LATERAL attributed_spans(c.day, c.stored) s
    ON CONFLICT DO NOTHING;
END $$;

-- Changes the leases of a process on accounts, which the caller has locked. At most a quarter of the available balance
-- is leased, so that several processes get a lease and the last part of a balance is held call by call. A lease that is
-- called back does not grow until it is gone.
CREATE OR REPLACE FUNCTION ledger_lease(p_process text, p_leases ledger_lease[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH wanted AS (
        SELECT w.account_id, CASE
                WHEN w.change <= 0 THEN -least(-w.change, coalesce(l.amount_nano_usd, 0))
                WHEN a.unleased_until > clock_timestamp() OR l.called_at IS NOT NULL THEN 0
                ELSE greatest(0, least(w.change, (a.balance_nano_usd - a.held_nano_usd - a.leased_nano_usd) / 4)) END AS change,
            w.least
        FROM unnest(p_leases) w
        JOIN accounts a ON a.id = ANY (ARRAY[w.account_id])
        LEFT JOIN leases l ON l.process_id = p_process AND l.account_id = ANY (ARRAY[w.account_id])
    ), changed AS MATERIALIZED (
        SELECT account_id, change FROM wanted WHERE change < 0 OR change > 0 AND change >= least
    ), leased AS (
        INSERT INTO leases AS l (process_id, account_id, amount_nano_usd)
        SELECT p_process, account_id, change FROM changed WHERE change > 0
        ON CONFLICT (process_id, account_id) DO UPDATE SET amount_nano_usd = l.amount_nano_usd + excluded.amount_nano_usd
    ), given_back AS (
        UPDATE leases l SET amount_nano_usd = l.amount_nano_usd + c.change
        FROM changed c WHERE c.change < 0 AND l.process_id = p_process AND l.account_id = ANY (ARRAY[c.account_id])
    )
    UPDATE accounts a SET leased_nano_usd = a.leased_nano_usd + c.change
    FROM changed c WHERE a.id = ANY (ARRAY[c.account_id]);
    DELETE FROM leases l USING unnest(p_leases) w
    WHERE w.change <= 0 AND l.process_id = p_process AND l.account_id = ANY (ARRAY[w.account_id]) AND l.amount_nano_usd = 0;
END $$;

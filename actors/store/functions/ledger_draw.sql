-- If a balance does not cover a batch in addition to its leases, the amounts of calls admitted from the process's lease
-- are taken from that lease. The caller has locked the accounts. `p_late`: calls that were admitted from another lease,
-- which has ended.
CREATE OR REPLACE FUNCTION ledger_draw(p_process text, p_accounts ledger_account[], p_settlements ledger_settlement[],
    p_admitted ledger_admitted[], p_holds ledger_hold[], p_written integer, p_late jsonb)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH taken AS (
        SELECT x.account_id, sum(x.amount)::bigint AS amount FROM (
            SELECT d.account_id, d.call_id, least(d.cost, d.amount) AS amount
            FROM ROWS FROM (unnest(p_settlements), unnest(p_admitted)) AS d(
                call_id, cost, created_at, submitted_at, protocol, model, status, input_tokens, output_tokens,
                cached_tokens, latency_ms, upstream_cost, channel_id, attribution, rare, account_id, key_id, amount)
            WHERE d.account_id IS NOT NULL
            UNION ALL
            SELECT h.account_id, h.call_id, h.amount FROM unnest(p_holds) h WHERE h.seq < p_written
        ) x
        WHERE (p_late ? x.call_id::text) IS NOT TRUE
        GROUP BY x.account_id
    ), drawn AS (
        UPDATE leases l SET amount_nano_usd = l.amount_nano_usd - least(t.amount, l.amount_nano_usd)
        FROM taken t, accounts a, unnest(p_accounts) n
        WHERE l.process_id = p_process AND l.account_id = ANY (ARRAY[t.account_id])
            AND a.id = ANY (ARRAY[t.account_id]) AND n.id = t.account_id
            AND n.needed >= a.balance_nano_usd - a.held_nano_usd - a.leased_nano_usd
        RETURNING l.account_id, t.amount, l.amount_nano_usd AS amount_left
    )
    UPDATE accounts a SET leased_nano_usd = a.leased_nano_usd - (l.amount_nano_usd - d.amount_left)
    FROM drawn d JOIN leases l ON l.process_id = p_process AND l.account_id = d.account_id  -- as it was before
    WHERE a.id = ANY (ARRAY[d.account_id]);
END $$;

-- The movements to sum: the entries since this end of a month, and the sums of those before.
CREATE OR REPLACE FUNCTION movements(p_since timestamptz)
RETURNS TABLE (account_id text, key_id text, amount_nano_usd bigint, held_nano_usd bigint) LANGUAGE sql STABLE AS $$
    SELECT e.account_id, coalesce(e.key_id, ''), e.amount_nano_usd, e.held_nano_usd
    FROM entries e WHERE e.created_at >= p_since
    UNION ALL
    SELECT s.account_id, s.key_id, s.amount_nano_usd, s.held_nano_usd
    FROM checkpoint_sums s WHERE s.ends_at <= p_since
$$;

-- The checkpoint of the month from `p_since` to `p_ends`, computed from its entries and the checkpoint before.
CREATE OR REPLACE FUNCTION checkpoint_sums_of(p_since timestamptz, p_ends timestamptz)
RETURNS TABLE (account_id text, key_id text, entries bigint, amount_nano_usd bigint, held_nano_usd bigint)
LANGUAGE sql STABLE AS $$
    SELECT e.account_id, coalesce(e.key_id, ''), count(*), sum(e.amount_nano_usd)::bigint, sum(e.held_nano_usd)::bigint
    FROM entries e WHERE e.created_at >= p_since AND e.created_at < p_ends
    GROUP BY 1, 2
$$;

-- The entries since this end of a month, and the earlier ones that its checkpoint carries for them.
CREATE OR REPLACE FUNCTION entries_since(p_since timestamptz)
RETURNS TABLE (id bigint, account_id text, key_id text, call_id uuid, kind entry_kind, amount_nano_usd bigint,
    held_nano_usd bigint, created_at timestamptz) LANGUAGE sql STABLE AS $$
    SELECT e.id, e.account_id, e.key_id, e.call_id, e.kind, e.amount_nano_usd, e.held_nano_usd, e.created_at
    FROM entries e WHERE e.created_at >= p_since
    UNION ALL
    SELECT c.id, c.account_id, c.key_id, c.call_id, c.kind, c.amount_nano_usd, c.held_nano_usd, c.created_at
    FROM checkpoint_entries c WHERE c.ends_at = p_since
$$;

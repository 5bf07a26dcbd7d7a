-- The bases that a user of an account may read, in order, by the ids that this user sees.
CREATE OR REPLACE FUNCTION kb_readable(p_account text, p_user text)
RETURNS TABLE (no bigint, standing integer, kb_id text, name text, pages integer) LANGUAGE sql STABLE
AS $$
    SELECT b.no, 0, b.kb_id, b.name, b.pages FROM kb_bases b
    WHERE b.account_id = p_account AND b.kb_id = 'default' AND b.user_name = p_user
    UNION ALL
    SELECT b.no, 1, b.kb_id, b.name, b.pages FROM kb_bases b
    WHERE b.account_id = p_account AND b.user_name IS NULL
      AND (NOT b.is_restricted OR EXISTS (SELECT FROM kb_grants g WHERE g.base_no = b.no AND g.to_user = p_user))
    UNION ALL
    SELECT b.no, 2, b.account_id || ':' || b.kb_id, b.name, b.pages
    FROM kb_grants g JOIN kb_bases b ON b.no = g.base_no
    WHERE g.to_account = p_account AND b.account_id <> p_account
$$;

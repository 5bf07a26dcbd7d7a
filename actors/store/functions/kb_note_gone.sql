-- Records the lexemes of pages that will be removed.
CREATE OR REPLACE FUNCTION kb_note_gone(p_base bigint, p_pages bigint[], p_share integer, p_shares integer) RETURNS void LANGUAGE sql
SET work_mem = '64MB' SET jit = off SET enable_seqscan = off
AS $$
    INSERT INTO kb_changes (base_no, lexeme)
    SELECT DISTINCT p_base, u.lexeme FROM (
        SELECT terms FROM kb_terms WHERE page_no = ANY (p_pages) OFFSET 0
    ) AS t CROSS JOIN LATERAL unnest(t.terms) u
    WHERE p_shares = 1 OR (hashtext(u.lexeme) & 2147483647) % p_shares = p_share
    ORDER BY u.lexeme
$$;

-- Records the entries of new pages, from their terms. One call records all terms of a page and lexeme; a long page takes
-- several calls, each for a share of its lexemes.
--
-- No plan depends on statistics, which are older than the rows that a transaction has written itself: a list is looked up in
-- a subquery of its own, kept apart by `OFFSET 0`, or by `ctid`. The importer disables sequential scans, and joins other
-- than nested loops (`begin_changing`).
CREATE OR REPLACE FUNCTION kb_note_new(p_base bigint, p_pages bigint[], p_share integer, p_shares integer) RETURNS void LANGUAGE sql
SET work_mem = '64MB' SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    INSERT INTO kb_changes (base_no, lexeme, entry)
    SELECT p_base, u.lexeme, (t.slot::bigint << 20) | (min(t.field)::bigint << 16)
           | least(65535, sum(kb_weight(t.field, cardinality(u.positions), t.lexemes))::bigint)
    FROM (
        SELECT p.slot, k.field, k.terms, length(k.terms) AS lexemes
        FROM kb_pages p JOIN kb_terms k ON k.page_no = ANY (ARRAY[p.no]) WHERE p.no = ANY (p_pages) OFFSET 0
    ) AS t CROSS JOIN LATERAL unnest(t.terms) u
    WHERE p_shares = 1 OR (hashtext(u.lexeme) & 2147483647) % p_shares = p_share
    GROUP BY u.lexeme, t.slot ORDER BY u.lexeme
$$;

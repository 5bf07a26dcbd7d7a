-- Notes the entries of new pages, from their terms. All terms of a page and lexeme are noted at once: of a long page one
-- share of its lexemes after the other.
--
-- No plan depends on statistics, which are older than the rows that a transaction has written itself: a list is looked up in
-- a subquery of its own, which `OFFSET 0` keeps one, or by its place (`ctid`). The importer has plans that read whole tables,
-- and joins other than by look-ups, switched off (`begin_changing`).
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

-- Writes the posting lists of the next lexemes that have changes, without the pages in p_gone (slots): lexemes of up to
-- p_budget entries together, at least one; each list costs as much as 20 entries. Returns the last of these lexemes; null:
-- no changes are left.
CREATE OR REPLACE FUNCTION kb_apply_changes(p_base bigint, p_gone integer[], p_after text, p_budget integer) RETURNS text
LANGUAGE plpgsql
SET work_mem = '64MB' SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    v_gone bit varying := coalesce(kb_bits(ARRAY(SELECT s::bigint << 20 FROM unnest(p_gone) s ORDER BY s)), '');
    v_slots integer := length(v_gone);
    v_last text;
BEGIN
    SELECT max(w.lexeme) INTO v_last FROM (
        SELECT c.lexeme, sum(20 + c.changes + coalesce(p.pages, 0)) OVER (ORDER BY c.lexeme)
                         - 20 - c.changes - coalesce(p.pages, 0) AS before
        FROM (
            SELECT n.lexeme, count(*) AS changes
            FROM (SELECT k.lexeme FROM kb_changes k WHERE k.base_no = p_base AND k.lexeme > p_after
                  ORDER BY k.lexeme LIMIT p_budget) n
            GROUP BY n.lexeme
        ) c
        LEFT JOIN LATERAL (
            SELECT o.pages FROM kb_postings o WHERE o.base_no = p_base AND o.lexeme = c.lexeme OFFSET 0) p ON true
    ) w WHERE w.before < p_budget;

    WITH taken AS MATERIALIZED (
        DELETE FROM kb_changes k WHERE k.base_no = p_base AND k.lexeme > p_after AND k.lexeme <= v_last
        RETURNING k.lexeme, k.entry
    ), added AS MATERIALIZED (
        SELECT t.lexeme, array_agg(t.entry) FILTER (WHERE t.entry IS NOT NULL) AS entries FROM taken t GROUP BY t.lexeme
    ), whole AS MATERIALIZED (
        SELECT a.lexeme, p.at, ARRAY(
            SELECT e FROM unnest(p.entries) e WHERE e >> 20 >= v_slots OR get_bit(v_gone, (e >> 20)::integer) = 0
            UNION ALL SELECT unnest(a.entries) ORDER BY 1) AS entries
        FROM added a LEFT JOIN LATERAL (
            SELECT o.ctid AS at, o.entries FROM kb_postings o
            WHERE o.base_no = p_base AND o.lexeme = a.lexeme OFFSET 0) p ON true
    ), emptied AS (
        DELETE FROM kb_postings WHERE ctid = ANY (ARRAY(SELECT w.at FROM whole w WHERE cardinality(w.entries) = 0))
    )
    INSERT INTO kb_postings (base_no, lexeme, pages, entries, bits)
    SELECT p_base, w.lexeme, cardinality(w.entries), w.entries,
           CASE WHEN w.entries[cardinality(w.entries)] >> 20 < 64 * cardinality(w.entries) THEN kb_bits(w.entries) END
    FROM whole w WHERE cardinality(w.entries) > 0
    ON CONFLICT (base_no, lexeme) DO UPDATE SET pages = excluded.pages, entries = excluded.entries, bits = excluded.bits;
    RETURN v_last;
END $$;

-- Pages go into a base's lists and out of them in portions, each a statement of its own within the one transaction of an
-- import. What changes is noted first, lexeme by lexeme, and each list is then written once. No plan depends on statistics,
-- which are older than the rows that a transaction has written itself: a list is looked up in a subquery of its own, which
-- `OFFSET 0` keeps one, or by its place (`ctid`); `x = ANY (ARRAY[y])`, as in 0017, would leave the second column of an
-- index unused. And the importer has plans that read whole tables, and joins other than by look-ups, switched off
-- (`begin_changing`).

DROP FUNCTION kb_add_postings(bigint, bigint[]);
DROP FUNCTION kb_drop_postings(bigint, bigint[]);

-- An entry that is to be added; none: the lexeme stands in a page that is gone. Empty but within a transaction.
CREATE UNLOGGED TABLE kb_changes (
    base_no bigint NOT NULL,
    lexeme  text COLLATE "C" NOT NULL,
    entry   bigint
);

CREATE INDEX kb_changes_by_lexeme ON kb_changes (base_no, lexeme);

-- The index takes in what was added to it in small steps.
ALTER INDEX kb_terms_by_term SET (gin_pending_list_limit = 512);

-- Note the entries of some rows of terms of new pages. All rows of a page and lexeme are noted at once: of a long page one
-- share of its lexemes after the other.
CREATE FUNCTION kb_note_new(p_base bigint, p_pages bigint[], p_share integer, p_shares integer) RETURNS void LANGUAGE sql
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

-- Note the lexemes of pages that are about to go.
CREATE FUNCTION kb_note_gone(p_base bigint, p_pages bigint[], p_share integer, p_shares integer) RETURNS void LANGUAGE sql
SET work_mem = '64MB' SET jit = off SET enable_seqscan = off
AS $$
    INSERT INTO kb_changes (base_no, lexeme)
    SELECT DISTINCT p_base, u.lexeme FROM (
        SELECT terms FROM kb_terms WHERE page_no = ANY (p_pages) OFFSET 0
    ) AS t CROSS JOIN LATERAL unnest(t.terms) u
    WHERE p_shares = 1 OR (hashtext(u.lexeme) & 2147483647) % p_shares = p_share
    ORDER BY u.lexeme
$$;

-- Write the lists of the next lexemes for which something is noted, without the pages in p_gone, which are slots: as many
-- as have p_budget entries together, or one; a list takes as long as 20 entries by itself. The last of these lexemes; null: there is nothing left.
CREATE FUNCTION kb_apply_changes(p_base bigint, p_gone integer[], p_after text, p_budget integer) RETURNS text
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

DROP FUNCTION kb_either(bit varying, bit varying);

-- Accounts whose bases have changed since the sources that no page names were last removed.
CREATE TABLE kb_unclean (
    account_id text PRIMARY KEY,
    since      timestamptz NOT NULL DEFAULT now()
);

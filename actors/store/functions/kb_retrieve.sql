-- The beginnings of the best pages with any of the terms (see kb_rank) in these bases together, best first; one row
-- without a page if there is none. `is_readable` is false if the user may not read one of the bases, and nothing is
-- searched. A personal base is readable before it exists.
--
-- The cast to varchar(n) reads the kept characters once, and none of a body with few enough bytes; left() reads four times
-- as many bytes, and the kept characters again.
CREATE OR REPLACE FUNCTION kb_retrieve(p_account text, p_user text, p_kbs text[], p_name text,
    p_numbers integer[], p_alternatives integer[], p_lexemes text[], p_costs integer[],
    p_phrase_numbers integer[], p_phrases text[], p_phrase_lexemes text[],
    p_near integer, p_near_terms integer, p_near_query text, p_mark text,
    p_budget bigint, p_limit integer, p_characters integer)
RETURNS TABLE (is_readable boolean, kb_id text, id text, title text, body text)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_bases bigint[];
    v_kbs text[];
BEGIN
    SELECT coalesce(array_agg(r.no ORDER BY r.no), '{}'), coalesce(array_agg(r.kb_id ORDER BY r.no), '{}') INTO v_bases, v_kbs
    FROM kb_readable(p_account, p_user) r WHERE r.kb_id = ANY (p_kbs);
    IF NOT p_kbs <@ (v_kbs || 'default'::text) OR cardinality(p_lexemes) = 0 THEN
        RETURN QUERY SELECT p_kbs <@ (v_kbs || 'default'::text), NULL, NULL, NULL, NULL;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT true, v_kbs[array_position(v_bases, k.base_no)], p.id::text, p.title,
           pg_catalog.varchar(p.body::varchar, p_characters + 4, true)::text
    FROM kb_rank(v_bases, p_name, false, p_numbers, p_alternatives, p_lexemes, p_costs, p_phrase_numbers, p_phrases,
                 p_phrase_lexemes, p_near, p_near_terms, p_near_query, p_mark, p_budget, 0, p_limit)
         WITH ORDINALITY AS k(total, page_no, base_no, key, nearness, n)
    LEFT JOIN kb_pages p ON p.no = k.page_no
    ORDER BY k.n;
END $$;

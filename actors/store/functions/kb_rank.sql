-- The pages that have every term of a search (or any), best first, each with the number of all found pages; that number
-- alone if the window is empty.
--
-- p_numbers …     of each lexeme: its term, and its alternative of that term; without a base's prefix
-- p_costs         of each term: 1 for a single lexeme, more for a phrase, whose pages are tested one by one
-- p_phrases       the conditions of the terms that are no single lexeme, by p_phrase_numbers, and any of their lexemes in
--                 p_phrase_lexemes. ts_rank does not return the frequency n of a phrase, but the sum of 1/k² for k from 1
--                 to n, divided by π²/6; n is computed from that
-- p_near          the number of first pages that are ordered again by the nearness of p_near_terms terms in one field, with
--                 the condition p_near_query
-- p_budget        the most pages to weigh, the rarest terms first; terms beyond it are ignored
-- p_mark          the placeholder of a base's prefix in the conditions
--
-- Pages are ordered by one number: the terms found << 50, whether a name equals the search << 49, 15 - the best field
-- << 44, and the weight: entries (see `kb_postings`) times the rarity of their terms, at most 500 times 2^16 * 2^12. A phrase is
-- as rare as its rarest lexeme.
--
-- The terms of all pages are counted at once, in `planes`: bit strings of the ones, twos, fours … of these numbers. Pages
-- with fewer terms than the page at the end of the window cannot be in it; only the entries of the others are read. The
-- small ROWS makes a join look the pages up one by one.
CREATE OR REPLACE FUNCTION kb_rank(p_bases bigint[], p_name text, p_every boolean,
    p_numbers integer[], p_alternatives integer[], p_lexemes text[], p_costs integer[],
    p_phrase_numbers integer[], p_phrases text[], p_phrase_lexemes text[],
    p_near integer, p_near_terms integer, p_near_query text, p_mark text,
    p_budget bigint, p_offset integer, p_limit integer)
RETURNS TABLE (total bigint, page_no bigint, base_no bigint, key bigint, nearness real)
LANGUAGE plpgsql STABLE ROWS 20
SET enable_seqscan = off SET jit = off SET work_mem = '32MB' SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_window integer := greatest(p_near, p_offset + p_limit);
    v_slots integer[];         -- of each base
    v_starts integer[] := '{}'; -- first bit of each base's slots, in the bits of all bases
    v_zeros bit varying[] := '{}';
    v_length integer := 0;
    v_lists kb_list[];
    v_list kb_list;
    v_entries bigint := 0;
    v_planes bit varying[] := '{}';
    v_row bit varying := '';
    v_carry bit varying;
    v_ones bit varying;
    v_found bit varying;        -- found pages
    v_first bit varying;        -- found pages with enough terms for the window
    v_level bit varying;        -- pages still undecided
    v_gap text;
    v_at bigint := -1;
    v_ats bigint[] := '{}';
    v_keys bigint[];
    v_equal bigint[];
    v_total bigint;
BEGIN
    v_slots := ARRAY(
        SELECT coalesce((SELECT (max(p.base_no << 32 | p.slot) & 4294967295) + 1 FROM kb_pages p
                         WHERE p.base_no << 32 | p.slot BETWEEN b.no << 32 AND b.no << 32 | 4294967295), 0)
        FROM unnest(p_bases) WITH ORDINALITY AS b(no, n) ORDER BY b.n);
    FOR i IN 1 .. cardinality(p_bases) LOOP
        v_starts[i] := v_length;
        v_zeros[i] := repeat('0', v_slots[i])::bit varying;
        v_length := v_length + v_slots[i];
    END LOOP;

    -- The lists of the terms, each term's in the order of the bases.
    v_lists := ARRAY(
        WITH lexeme AS MATERIALIZED (
            SELECT a.n, a.alternative, b.n AS base, coalesce(p.pages, 0) AS pages, p.bits, p.entries
            FROM unnest(p_bases) WITH ORDINALITY AS b(no, n)
            CROSS JOIN unnest(p_numbers, p_alternatives, p_lexemes) AS a(n, alternative, lexeme)
            LEFT JOIN kb_postings p ON p.base_no = b.no AND p.lexeme = b.no || ':' || a.lexeme
        ), term AS MATERIALIZED (
            SELECT s.n, s.most, s.cost, (256 * ln(1 + (SELECT sum(b.pages) FROM kb_bases b WHERE b.no = ANY (p_bases))
                                              / greatest(s.most, 1)::float8))::integer AS rarity,
                   sum(s.most * s.cost) OVER (ORDER BY s.most * s.cost, s.n) - s.most * s.cost < p_budget AS is_weighed
            FROM (
                SELECT a.n, p_costs[a.n + 1] AS cost, sum(a.pages) AS most
                FROM (SELECT l.n, min(l.pages) AS pages FROM lexeme l GROUP BY l.n, l.alternative, l.base) a GROUP BY a.n
            ) s
        ), phrase AS (
            SELECT q.n, b.n AS base, ARRAY(
                SELECT (p.slot::bigint << 20) | (s.field::bigint << 16) | s.weight
                FROM (
                    SELECT r.page_no, min(r.field) AS field, least(65535, sum(r.weight)::bigint) AS weight
                    FROM (SELECT k.page_no, k.field, kb_weight(k.field, greatest(1,
                        0.608 / (1.001 - ts_rank('{1,1,1,1}', k.terms, replace(q.lexemes, p_mark, b.no || ':')::tsquery)) - 0.5),
                        length(k.terms)) AS weight
                    FROM kb_terms k WHERE k.terms @@ replace(q.q, p_mark, b.no || ':')::tsquery OFFSET 0
                    ) r GROUP BY r.page_no
                ) s JOIN kb_pages p ON p.no = s.page_no ORDER BY p.slot) AS entries
            FROM unnest(p_phrase_numbers, p_phrases, p_phrase_lexemes) AS q(n, q, lexemes)
            JOIN term t ON t.n = q.n AND t.is_weighed AND t.most > 0
            CROSS JOIN unnest(p_bases) WITH ORDINALITY AS b(no, n)
        ), list AS (
            SELECT t.n, t.rarity, l.base, l.bits, l.entries
            FROM term t JOIN lexeme l ON l.n = t.n WHERE t.cost = 1 AND t.is_weighed
            UNION ALL
            SELECT t.n, t.rarity, b.n, NULL, p.entries
            FROM term t CROSS JOIN generate_series(1, cardinality(p_bases)) AS b(n)
            LEFT JOIN phrase p ON p.n = t.n AND p.base = b.n WHERE t.cost > 1 AND t.is_weighed
        ), wide AS (
            SELECT l.*, v_slots[l.base] AS slots, v_zeros[l.base] AS zeros FROM list l OFFSET 0
        )
        SELECT (w.n, w.base, w.rarity, CASE
            WHEN w.bits IS NOT NULL THEN w.bits || substring(w.zeros FROM 1 FOR w.slots - length(w.bits))
            ELSE coalesce((SELECT bit_or(set_bit(w.zeros, (e >> 20)::integer, 1)) FROM unnest(w.entries) e), w.zeros)
            END, w.entries)::kb_list
        FROM wide w ORDER BY w.n, w.base);

    -- Count the terms of each page; find the pages with all or any.
    FOREACH v_list IN ARRAY v_lists LOOP
        v_entries := v_entries + coalesce(cardinality(v_list.entries), 0);
        v_row := v_row || v_list.bits;
        CONTINUE WHEN v_list.base < cardinality(p_bases);
        IF p_every THEN
            v_found := coalesce(v_found & v_row, v_row);
        ELSE
            v_found := coalesce(v_found | v_row, v_row);
            v_carry := v_row;
            FOR i IN 1 .. cardinality(v_planes) LOOP
                v_ones := v_planes[i];
                v_planes[i] := v_ones # v_carry;
                v_carry := v_ones & v_carry;
                EXIT WHEN bit_count(v_carry) = 0;
            END LOOP;
            IF bit_count(v_carry) > 0 THEN
                v_planes := v_planes || v_carry;
            END IF;
        END IF;
        v_row := '';
    END LOOP;
    v_total := coalesce(bit_count(v_found), 0);
    IF v_total = 0 THEN
        RETURN QUERY SELECT 0::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::real;
        RETURN;
    END IF;

    -- The pages with the largest number of terms that enough pages reach, found bit by bit from the highest.
    v_first := v_found;
    IF NOT p_every AND v_total > p_offset + p_limit THEN
        v_level := v_found;
        v_first := v_found & ~ v_found;
        FOR i IN REVERSE cardinality(v_planes) .. 1 LOOP
            v_ones := v_level & v_planes[i];
            IF bit_count(v_first) + bit_count(v_ones) >= p_offset + p_limit THEN
                v_level := v_ones;
            ELSE
                v_first := v_first | v_ones;
                v_level := v_level & ~ v_planes[i];
            END IF;
        END LOOP;
        v_first := v_first | v_level;
    END IF;

    v_equal := ARRAY(
        SELECT v_starts[array_position(p_bases, p.base_no)] + p.slot
        FROM kb_names m JOIN kb_pages p ON p.no = m.page_no
        WHERE m.base_no = ANY (p_bases) AND m.kind = 'equal' AND md5(m.name) = md5(p_name) AND m.name = p_name);

    -- The order of the pages: of few pages by looking them up in the lists, of many by reading the lists.
    IF 4 * bit_count(v_first) * cardinality(v_lists) < v_entries THEN
        FOREACH v_gap IN ARRAY string_to_array(v_first::text, '1') LOOP
            v_at := v_at + length(v_gap) + 1;
            v_ats := v_ats || v_at;
        END LOOP;
        SELECT array_agg(s.at), array_agg(s.key) INTO v_ats, v_keys FROM (
            SELECT h.at, (count(*) << 50) | ((15 - min((h.entry >> 16) & 15)) << 44)
                   | sum((h.entry & 65535)::integer * h.rarity)
                   | CASE WHEN h.at = ANY (v_equal) THEN 1::bigint << 49 ELSE 0 END AS key
            FROM (
                SELECT x.*, l.rarity FROM unnest(v_lists) l CROSS JOIN LATERAL (
                    SELECT a.at, a.at - v_starts[l.base] AS slot,
                           l.entries[width_bucket(((a.at - v_starts[l.base]) << 20) | 1048575, l.entries)] AS entry
                    FROM unnest(v_ats) AS a(at) OFFSET 0
                ) x WHERE x.entry >> 20 = x.slot AND x.slot < v_slots[l.base]
            ) h
            GROUP BY h.at ORDER BY key DESC FETCH FIRST v_window ROWS WITH TIES
        ) s;
    ELSE
        SELECT array_agg(s.at), array_agg(s.key) INTO v_ats, v_keys FROM (
            SELECT h.at, (count(*) << 50) | ((15 - min((h.entry >> 16) & 15)) << 44)
                   | sum((h.entry & 65535)::integer * h.rarity)
                   | CASE WHEN h.at = ANY (v_equal) THEN 1::bigint << 49 ELSE 0 END AS key
            FROM (
                SELECT v_starts[l.base] + (e >> 20) AS at, e AS entry, l.rarity
                FROM unnest(v_lists) l CROSS JOIN LATERAL unnest(l.entries) e
                WHERE get_bit(v_first, (v_starts[l.base] + (e >> 20))::integer) = 1
            ) h
            GROUP BY h.at ORDER BY key DESC FETCH FIRST v_window ROWS WITH TIES
        ) s;
    END IF;

    -- If no first page has the terms that must be near, the order is final: only the pages of the window, and those equal
    -- to its last, are looked up.
    IF p_near = 0 OR v_keys[1] >> 50 < p_near_terms THEN
        v_window := p_offset + p_limit;
        v_window := v_window + cardinality(array_positions(v_keys[v_window + 1:], v_keys[v_window]));
        RETURN QUERY
        SELECT v_total, a.no, a.base_no, a.key, a.nearness
        FROM (SELECT) AS t LEFT JOIN (
            SELECT p.no, p.base_no, p.id, k.key, 0::real AS nearness
            FROM unnest(v_ats[:v_window], v_keys[:v_window]) AS k(at, key)
            CROSS JOIN unnest(p_bases, v_starts, v_slots) AS b(no, starts, slots)
            JOIN kb_pages p ON p.base_no << 32 | p.slot = b.no << 32 | k.at - b.starts
            WHERE k.at >= b.starts AND k.at < b.starts + b.slots
            ORDER BY k.key DESC, p.id, p.base_no OFFSET p_offset LIMIT p_limit
        ) a ON true ORDER BY a.key DESC, a.id, a.base_no;
        RETURN;
    END IF;

    RETURN QUERY
    WITH first AS MATERIALIZED (
        SELECT k.key, p.no, p.base_no, p.id, row_number() OVER (ORDER BY k.key DESC, p.id, p.base_no) AS nth
        FROM unnest(v_ats, v_keys) AS k(at, key)
        CROSS JOIN unnest(p_bases, v_starts, v_slots) AS b(no, starts, slots)
        JOIN kb_pages p ON p.base_no << 32 | p.slot = b.no << 32 | k.at - b.starts
        WHERE k.at >= b.starts AND k.at < b.starts + b.slots
        ORDER BY nth LIMIT v_window
    ), again AS (
        SELECT f.*, f.nth <= p_near AS is_near, coalesce(CASE WHEN f.nth <= p_near AND f.key >> 50 >= p_near_terms
            THEN (SELECT max(ts_rank_cd('{1,1,1,1}', t.terms, replace(p_near_query, p_mark, f.base_no || ':')::tsquery, 4))
                  FROM kb_terms t
                  WHERE t.page_no = f.no AND t.terms @@ replace(p_near_query, p_mark, f.base_no || ':')::tsquery) END, 0) AS nearness
        FROM first f
    )
    SELECT v_total, a.no, a.base_no, a.key, a.nearness
    FROM (SELECT) AS t LEFT JOIN (
        SELECT a.*, row_number() OVER (ORDER BY a.is_near DESC, a.key >> 44 DESC,
            (a.key & ((1::bigint << 44) - 1)) * (1 + a.nearness / (1 + a.nearness)) DESC, a.id, a.base_no) AS rank
        FROM again a ORDER BY rank OFFSET p_offset LIMIT p_limit
    ) a ON true ORDER BY a.rank;
END $$;

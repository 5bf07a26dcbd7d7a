-- What a search weighs: for each lexeme of a base the pages that have it, so that ranking reads one row for each of its
-- terms and not the vectors of every page. The vectors stay for what needs positions: phrases, nearness, snippets.

-- The base of a lexeme is no foreign key, which would be looked up for each of some hundred thousand rows of an import.
-- An entry is a page's number, its best field for the lexeme (as in kb_terms) in 4 bits and how much it is about it,
-- over all fields, in 16: page_no << 20 | field << 16 | weight.
CREATE TABLE kb_postings (
    base_no bigint NOT NULL,
    lexeme  text COLLATE "C" NOT NULL,
    pages   integer NOT NULL,
    entries bigint[] NOT NULL,
    PRIMARY KEY (base_no, lexeme)
);

-- Read whole and often: not to be decompressed each time.
ALTER TABLE kb_postings ALTER COLUMN entries SET STORAGE EXTERNAL;

-- How much a page is about what stands `frequency` times in a field of so many lexemes. The frequency saturates, and counts
-- for less in a long text (BM25 with k1 = 1.2, fixed lengths, and b = 0.75, of a title 0.4; aliases and tags are lists,
-- of which a long one says no less). The sum over the five fields is below 10, and kept in steps of 1/4096. The field
-- itself weighs little here, because pages are ordered by their best one before.
CREATE FUNCTION kb_weight(field smallint, frequency float8, lexemes integer) RETURNS float8 LANGUAGE sql IMMUTABLE
AS $$
    SELECT 4096 * ('{3,2.5,2,1.5,1}'::float8[])[field + 1] * frequency / (frequency
        + ('{0.72,1.2,1.2,0.3,0.3}'::float8[])[field + 1] + ('{0.08,0,0,0.056,0.006}'::float8[])[field + 1] * lexemes)
$$;

-- Enter pages whose terms are stored.
CREATE FUNCTION kb_add_postings(p_base bigint, p_pages bigint[]) RETURNS void LANGUAGE sql
SET work_mem = '64MB' SET jit = off
AS $$
    INSERT INTO kb_postings AS old (base_no, lexeme, pages, entries)
    SELECT p_base, lexeme, count(*), array_agg((page_no << 20) | (field::bigint << 16) | weight)
    FROM (
        SELECT t.page_no, u.lexeme, min(t.field) AS field, least(65535, sum(kb_weight(t.field, cardinality(u.positions), t.lexemes))::bigint) AS weight
        FROM (
            SELECT page_no, field, terms, length(terms) AS lexemes
            FROM kb_terms WHERE page_no = ANY (p_pages) OFFSET 0
        ) AS t CROSS JOIN LATERAL unnest(t.terms) u
        GROUP BY t.page_no, u.lexeme
    ) AS entry
    GROUP BY lexeme
    ON CONFLICT (base_no, lexeme)
        DO UPDATE SET pages = old.pages + excluded.pages, entries = old.entries || excluded.entries
$$;

-- Take out pages whose terms are still stored.
CREATE FUNCTION kb_drop_postings(p_base bigint, p_pages bigint[]) RETURNS void LANGUAGE sql
SET work_mem = '64MB' SET jit = off
AS $$
    WITH lost AS MATERIALIZED (
        SELECT DISTINCT u.lexeme FROM kb_terms t CROSS JOIN LATERAL unnest(t.terms) u WHERE t.page_no = ANY (p_pages)
    ), rest AS MATERIALIZED (
        SELECT p.lexeme, ARRAY(
            SELECT entry FROM unnest(p.entries) entry WHERE entry >> 20 NOT IN (SELECT unnest(p_pages))
        ) AS entries
        FROM lost JOIN kb_postings p ON p.base_no = p_base AND p.lexeme = lost.lexeme
    ), gone AS (
        DELETE FROM kb_postings p USING rest
        WHERE p.base_no = p_base AND p.lexeme = rest.lexeme AND cardinality(rest.entries) = 0
    )
    UPDATE kb_postings p SET entries = rest.entries, pages = cardinality(rest.entries) FROM rest
    WHERE p.base_no = p_base AND p.lexeme = rest.lexeme AND cardinality(rest.entries) > 0
$$;

-- The pages that have every term of a search (or any), best first; one row without a page says how many there are.
--
-- p_numbers …     of each lexeme: which term it is of, which of the term's alternatives, in which base
-- p_costs         of each term: 1 for a single lexeme, more for a phrase, whose pages must be looked at one by one
-- p_phrases       the conditions of the terms that are no single lexeme, by p_phrase_numbers, and any of their lexemes in
--                 p_phrase_lexemes: ts_rank knows no frequency of phrases, but makes of a lexeme that stands n times the
--                 sum of 1/k² for k from 1 to n by that of all, from which n is got back
-- p_near          so many of the first pages are ordered again by how near p_near_terms terms stand in one field, by the
--                 condition of each base in p_near_queries
-- p_budget        how many pages are weighed at most, the rarest terms first; the commonest beyond it are left out
--
-- Pages are ordered by one number: the terms found << 50, whether a name equals the search << 49, 15 - the best field
-- << 44, and the weight: entries (see above) times the rarity of their terms, at most 500 times 2^16 * 2^12. A phrase is
-- as rare as its rarest lexeme.
CREATE FUNCTION kb_rank(p_bases bigint[], p_pages bigint, p_name text, p_every boolean,
    p_numbers integer[], p_alternatives integer[], p_lexeme_bases bigint[], p_lexemes text[], p_costs integer[],
    p_phrase_numbers integer[], p_phrases text[], p_phrase_lexemes text[],
    p_near integer, p_near_terms integer, p_near_queries text[],
    p_budget bigint, p_offset integer, p_limit integer)
RETURNS TABLE (total bigint, page_no bigint, base_no bigint, key bigint, nearness real)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET jit = off SET work_mem = '32MB' SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    WITH lexeme AS MATERIALIZED (
        SELECT a.n, a.alternative, a.base_no, a.lexeme, coalesce(p.pages, 0) AS pages
        FROM unnest(p_numbers, p_alternatives, p_lexeme_bases, p_lexemes) AS a(n, alternative, base_no, lexeme)
        LEFT JOIN kb_postings p ON p.base_no = a.base_no AND p.lexeme = a.lexeme
    ), term AS MATERIALIZED (
        SELECT s.n, s.most, (256 * ln(1 + p_pages / greatest(s.most, 1)::float8))::integer AS rarity,
               sum(s.most * s.cost) OVER (ORDER BY s.most * s.cost, s.n) - s.most * s.cost < p_budget AS is_weighed
        FROM (
            SELECT a.n, p_costs[a.n + 1] AS cost, sum(a.pages) AS most
            FROM (SELECT l.n, min(l.pages) AS pages FROM lexeme l GROUP BY l.n, l.alternative, l.base_no) a GROUP BY a.n
        ) s
    ), need AS MATERIALIZED (
        SELECT CASE WHEN p_every THEN count(*) ELSE 1 END AS terms, NOT p_every OR bool_and(t.most > 0) AS can_be
        FROM term t WHERE t.is_weighed
    ), plain AS (
        SELECT t.rarity, unnest(p.entries) AS entry
        FROM term t JOIN lexeme l USING (n) JOIN kb_postings p ON p.base_no = l.base_no AND p.lexeme = l.lexeme
        WHERE t.is_weighed AND p_costs[t.n + 1] = 1 AND (SELECT can_be FROM need)
    ), phrase AS (
        SELECT t.rarity, (s.page_no << 20) | (min(s.field)::bigint << 16) | least(65535, sum(s.weight)::bigint) AS entry
        FROM unnest(p_phrase_numbers, p_phrases, p_phrase_lexemes) AS q(n, q, lexemes) JOIN term t USING (n) CROSS JOIN LATERAL (
            SELECT k.page_no, k.field, kb_weight(k.field, greatest(1,
                0.608 / (1.001 - ts_rank('{1,1,1,1}', k.terms, q.lexemes::tsquery)) - 0.5), length(k.terms)) AS weight
            FROM kb_terms k WHERE k.terms @@ q.q::tsquery OFFSET 0
        ) s
        WHERE t.is_weighed AND t.most > 0 AND (SELECT can_be FROM need) GROUP BY t.n, t.rarity, s.page_no
    ), page AS MATERIALIZED (
        SELECT h.entry >> 20 AS no, (count(*) << 50) | ((15 - min((h.entry >> 16) & 15)) << 44)
               | sum((h.entry & 65535)::integer * h.rarity) AS key
        FROM (SELECT * FROM plain UNION ALL SELECT * FROM phrase) h
        GROUP BY 1 HAVING count(*) >= (SELECT terms FROM need)
    ), keyed AS MATERIALIZED (
        SELECT p.no, CASE WHEN p.no = ANY (ARRAY(
            SELECT m.page_no FROM kb_names m WHERE m.base_no = ANY (p_bases) AND m.kind = 'equal'
                AND md5(m.name) = md5(p_name) AND m.name = p_name)) THEN p.key | (1::bigint << 49) ELSE p.key END AS key
        FROM page p
    ), first AS MATERIALIZED (
        SELECT k.no, k.key, p.base_no, p.id, row_number() OVER (ORDER BY k.key DESC, p.id, p.base_no) AS place
        FROM keyed k JOIN kb_pages p USING (no)
        WHERE k.key >= (SELECT min(s.key) FROM (
            SELECT l.key FROM keyed l ORDER BY l.key DESC LIMIT greatest(p_near, p_offset + p_limit)) s)
        ORDER BY place LIMIT greatest(p_near, p_offset + p_limit)
    ), again AS MATERIALIZED (
        SELECT f.*, f.place <= p_near AS is_near, coalesce(CASE WHEN f.place <= p_near AND f.key >> 50 >= p_near_terms
            THEN (SELECT max(ts_rank_cd('{1,1,1,1}', t.terms, b.q::tsquery, 4))
                  FROM unnest(p_bases, p_near_queries) AS b(no, q) JOIN kb_terms t ON t.terms @@ b.q::tsquery
                  WHERE b.no = f.base_no AND t.page_no = f.no) END, 0) AS nearness
        FROM first f
    ), shown AS (
        SELECT a.*, row_number() OVER (ORDER BY a.is_near DESC, a.key >> 44 DESC,
            (a.key & ((1::bigint << 44) - 1)) * (1 + a.nearness / (1 + a.nearness)) DESC, a.id, a.base_no) AS rank
        FROM again a ORDER BY rank OFFSET p_offset LIMIT p_limit
    )
    SELECT t.total, s.no, s.base_no, s.key, s.nearness
    FROM (SELECT count(*) AS total FROM page) t LEFT JOIN shown s ON true ORDER BY s.rank;
END $$;

SELECT kb_add_postings(no, ARRAY(SELECT p.no FROM kb_pages p WHERE p.base_no = b.no)) FROM kb_bases b;

-- begin_reading --
-- One snapshot for all statements of a request, with plans that do not depend on numbers of rows.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL enable_seqscan = off; SET LOCAL jit = off

-- lock_account --
-- Serialize the changes of an account's bases: their sources are files, which no transaction rolls back.
SELECT pg_advisory_xact_lock(hashtextextended('gw kb ' || %s, 0))

-- begin_changing --
-- Plans by look-ups whatever the statistics: most rows were written by this transaction.
SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;
SET LOCAL enable_material = off; SET LOCAL jit = off;
-- Between its statements a change splits pages into terms and uploads sources.
SET LOCAL idle_in_transaction_session_timeout = '1h'

-- readable --
-- The bases that a user of an account may read, by the ids that this user sees.
SELECT no, kb_id, name, pages FROM kb_readable(%(account)s, %(user)s)
WHERE %(kb)s::text IS NULL OR kb_id = %(kb)s
ORDER BY standing, kb_id COLLATE "C"

-- find_base --
-- A base of an account, by its id and user.
SELECT no, kb_id, user_name, name, pages, is_restricted, updated_at FROM kb_bases
WHERE account_id = %(account)s AND kb_id = %(kb)s AND user_name IS NOT DISTINCT FROM %(user)s

-- list_bases --
-- All bases of an account.
SELECT no, kb_id, user_name, name, pages, is_restricted, updated_at FROM kb_bases
WHERE account_id = %s ORDER BY user_name IS NULL, kb_id, user_name

-- base_details --
-- The grants of bases, and their numbers of sources.
SELECT b.no, (SELECT count(DISTINCT r2_key) FROM kb_pages p WHERE p.base_no = b.no),
       ARRAY(SELECT g.to_user FROM kb_grants g WHERE g.base_no = b.no AND g.to_user IS NOT NULL ORDER BY 1),
       ARRAY(SELECT g.to_account FROM kb_grants g WHERE g.base_no = b.no AND g.to_account IS NOT NULL ORDER BY 1)
FROM kb_bases b WHERE b.no = ANY (%s)

-- insert_base --
-- Insert a base without pages.
INSERT INTO kb_bases (account_id, kb_id, user_name, name, is_restricted)
VALUES (%(account)s, %(kb)s, %(user)s, %(name)s, %(restricted)s) RETURNING no

-- set_base --
-- Change settings of a base, as far as given.
UPDATE kb_bases SET name = coalesce(%(name)s, name), is_restricted = coalesce(%(restricted)s, is_restricted),
    updated_at = now()
WHERE no = %(base)s AND (name <> coalesce(%(name)s, name) OR is_restricted <> coalesce(%(restricted)s, is_restricted))

-- count_pages --
-- Count the pages of a changed base.
UPDATE kb_bases SET pages = (SELECT count(*) FROM kb_pages WHERE base_no = %(base)s), updated_at = now()
WHERE no = %(base)s

-- remove_base --
-- Delete a base, whose pages are already deleted.
DELETE FROM kb_bases WHERE no = %(base)s

-- remove_postings --
-- Delete some posting lists of a base.
DELETE FROM kb_postings WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM kb_postings WHERE base_no = %(base)s LIMIT %(limit)s))

-- stored_pages --
-- The digest, slot and length of each page.
SELECT id, no, digest, slot, octet_length(body) FROM kb_pages WHERE base_no = %s

-- remove_links --
-- Delete some links of pages.
DELETE FROM kb_links WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM kb_links WHERE page_no = ANY (%(nos)s) LIMIT %(limit)s))

-- remove_pages --
-- Delete pages; their names, terms and remaining links are deleted with them.
DELETE FROM kb_pages WHERE no = ANY (%(nos)s)

-- insert_pages --
-- Insert pages, from one JSON text.
INSERT INTO kb_pages (base_no, slot, id, path, digest, head, body, title, summary, tags, aliases, confidence,
                      needs_review, r2_key, source_path, filename, locator, compiled_at, model)
SELECT %(base)s, slot, id, path, decode(digest, 'hex'), head, body, title, summary, tags, aliases, confidence, needs_review,
       r2_key, source_path, filename, locator, compiled_at, model
FROM json_to_recordset(%(rows)s::json) AS x(slot integer, id text, path text, digest text, head text, body text, title text,
    summary text, tags text[], aliases text[], confidence text, needs_review boolean, r2_key text, source_path text,
    filename text, locator text, compiled_at text, model text)
RETURNING id, no

-- insert_names --
-- Insert the names of new pages.
INSERT INTO kb_names (base_no, page_no, kind, name)
SELECT %(base)s, page_no, kind, name FROM json_to_recordset(%(rows)s::json) AS x(page_no bigint, kind text, name text)

-- insert_links --
-- Insert the links of new pages.
INSERT INTO kb_links (base_no, page_no, n, target, folded)
SELECT %(base)s, page_no, n, target, folded
FROM json_to_recordset(%(rows)s::json) AS x(page_no bigint, n integer, target text, folded text)

-- insert_terms --
-- Insert the terms of new pages.
INSERT INTO kb_terms (page_no, field, part, starts, ends, terms)
SELECT page_no, field, part, starts, ends, terms::tsvector
FROM json_to_recordset(%(rows)s::json)
    AS x(page_no bigint, field smallint, part integer, starts integer, ends integer, terms text)

-- note_new --
-- Record the lexemes of new pages, after their terms are inserted.
SELECT kb_note_new(%(base)s, %(nos)s, %(share)s, %(shares)s)

-- note_gone --
-- Record the lexemes of pages, before their terms are deleted.
SELECT kb_note_gone(%(base)s, %(nos)s, %(share)s, %(shares)s)

-- apply_changes --
-- Apply recorded changes to the posting lists of some lexemes; return the last of these lexemes.
SELECT kb_apply_changes(%(base)s, %(gone)s, %(after)s, %(budget)s)

-- page_nos --
-- All pages of a base.
SELECT no FROM kb_pages WHERE base_no = %s ORDER BY no

-- resolve_links --
-- Resolve links of some pages, from the n-th of the first page on: by exact ids, then by aliases, of which the page with the
-- smallest id counts. Returns the last link that was read, if there may be more.
WITH next AS MATERIALIZED (
    SELECT k.* FROM unnest(%(nos)s::bigint[]) WITH ORDINALITY AS w(no, place)
    CROSS JOIN LATERAL (
        SELECT ctid AS at, page_no, n, base_no, target, folded FROM kb_links
        WHERE page_no = w.no AND n >= CASE w.place WHEN 1 THEN %(first)s ELSE 0 END ORDER BY n) k
    LIMIT %(limit)s
), found AS MATERIALIZED (
    SELECT k.at, coalesce(
        (SELECT p.no FROM kb_pages p WHERE p.base_no = k.base_no AND p.id = normalize(k.target, NFC)),
        (SELECT p.no FROM kb_names m JOIN kb_pages p ON p.no = m.page_no
         WHERE m.base_no = k.base_no AND m.kind = 'alias' AND md5(m.name) = md5(k.folded) AND m.name = k.folded
         ORDER BY p.id LIMIT 1)) AS no
    FROM next k
), resolved AS (
    UPDATE kb_links l SET to_no = found.no FROM found
    WHERE l.ctid = found.at AND l.to_no IS DISTINCT FROM found.no
)
SELECT page_no, n FROM next OFFSET %(limit)s - 1

-- tidy_terms --
-- Merge new entries into the index, so that the next search does not scan its pending list.
SELECT gin_clean_pending_list('kb_terms_by_term')

-- mark_unclean --
-- Mark an account that may get sources without a page.
INSERT INTO kb_unclean (account_id) VALUES (%s) ON CONFLICT DO NOTHING

-- mark_clean --
-- Remove the mark.
DELETE FROM kb_unclean WHERE account_id = %s

-- unclean --
-- The marked accounts.
SELECT account_id FROM kb_unclean ORDER BY since

-- used_sources --
-- The sources that pages of an account refer to.
SELECT DISTINCT p.r2_key FROM kb_pages p JOIN kb_bases b ON b.no = p.base_no
WHERE b.account_id = %s AND p.r2_key IS NOT NULL

-- exported --
-- The files of a base.
SELECT path, head || body, source_path, r2_key FROM kb_pages WHERE base_no = %s ORDER BY path

-- unresolved --
-- Links of a base to missing pages.
SELECT p.id, l.target FROM kb_links l JOIN kb_pages p ON p.no = l.page_no
WHERE l.base_no = %s AND l.to_no IS NULL ORDER BY p.id, l.n

-- grant --
-- Grant a user, or an account, read access to a base; repeating it changes nothing.
INSERT INTO kb_grants (base_no, to_user, to_account) VALUES (%(base)s, %(user)s, %(account)s) ON CONFLICT DO NOTHING

-- revoke --
-- Revoke a grant.
DELETE FROM kb_grants
WHERE base_no = %(base)s AND to_user IS NOT DISTINCT FROM %(user)s AND to_account IS NOT DISTINCT FROM %(account)s

-- locate --
-- The pages of some names, in order: of the first base that has one, by exact id before aliases. A name may be limited to
-- one base.
SELECT f.base_no, f.page_no
FROM unnest(%(names)s::text[], %(folded)s::text[], %(only)s::bigint[]) WITH ORDINALITY AS w(name, folded, only_no, n)
LEFT JOIN LATERAL (
    SELECT c.base_no, c.page_no FROM (
        SELECT b.n, b.no AS base_no, coalesce(
            (SELECT p.no FROM kb_pages p WHERE p.base_no = b.no AND p.id = w.name),
            (SELECT p.no FROM kb_names m JOIN kb_pages p ON p.no = m.page_no
             WHERE m.base_no = b.no AND m.kind = 'alias' AND md5(m.name) = md5(w.folded) AND m.name = w.folded
             ORDER BY p.id LIMIT 1)) AS page_no
        FROM unnest(%(bases)s::bigint[]) WITH ORDINALITY AS b(no, n) WHERE b.no = coalesce(w.only_no, b.no)
    ) c WHERE c.page_no IS NOT NULL ORDER BY c.n LIMIT 1
) f ON true
ORDER BY w.n

-- pages --
-- Pages with all that a reader sees, their bodies truncated.
SELECT p.no, p.id, p.title, p.summary, p.tags, p.aliases,
       ARRAY(SELECT l.target FROM kb_links l WHERE l.page_no = p.no ORDER BY l.n),
       left(p.body, %(characters)s), char_length(p.body) > %(characters)s, p.confidence, p.needs_review,
       p.r2_key, p.filename, p.locator, p.compiled_at, p.model,
       (SELECT coalesce(json_agg(json_build_array(coalesce(t.id, l.target), t.no IS NOT NULL, t.title) ORDER BY l.n), '[]')
        FROM kb_links l LEFT JOIN kb_pages t ON t.no = l.to_no WHERE l.page_no = p.no)
FROM kb_pages p WHERE p.no = ANY (%(nos)s)

-- tags --
-- The tags of a base, by number of pages.
SELECT tag, count(*) FROM kb_pages p CROSS JOIN LATERAL unnest(p.tags) AS tag
WHERE p.base_no = %s GROUP BY tag ORDER BY count(*) DESC, tag COLLATE "C"

-- tagged --
-- The pages of some bases that have a tag, base by base.
SELECT base_no, id, title, summary, tags FROM kb_pages
WHERE base_no = ANY (%(bases)s) AND tags @> ARRAY[%(tag)s::text] ORDER BY array_position(%(bases)s::bigint[], base_no), id

-- backlinks --
-- The pages that link to a page.
SELECT id, title, summary, tags FROM kb_pages
WHERE no IN (SELECT l.page_no FROM kb_links l WHERE l.to_no = %(page)s) AND no <> %(page)s ORDER BY id

-- rank --
-- The pages that match a search, best first (see the function).
SELECT * FROM kb_rank(%(bases)s::bigint[], %(name)s, %(every)s,
    %(numbers)s::integer[], %(alternatives)s::integer[], %(lexemes)s::text[], %(costs)s::integer[],
    %(phrase_numbers)s::integer[], %(phrases)s::text[], %(phrase_lexemes)s::text[],
    %(near)s, %(near_terms)s, %(near_query)s, %(mark)s, %(budget)s, %(offset)s, %(limit)s)

-- hits --
-- The fields shown of found pages, with the best part of each body for a search.
SELECT p.no, p.id, p.title, p.summary, p.tags, p.confidence, p.needs_review, coalesce(b.starts, 0),
       coalesce(substr(p.body, b.starts + 1, least(b.ends - b.starts, %(characters)s)), ''),
       left(p.body, %(beginning)s), char_length(rtrim(p.body))
FROM kb_pages p JOIN unnest(%(bases)s::bigint[], %(any_queries)s::text[]) AS a(no, q) ON a.no = p.base_no
LEFT JOIN LATERAL (
    SELECT t.starts, t.ends FROM kb_terms t WHERE t.page_no = p.no AND t.field = 4
    ORDER BY ts_rank('{1,1,1,1}', t.terms, a.q::tsquery) DESC, t.part LIMIT 1
) b ON true
WHERE p.no = ANY (%(nos)s)

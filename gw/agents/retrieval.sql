-- excerpts --
-- The beginnings of some pages.
SELECT no, id, title, left(body, %(characters)s) FROM kb_pages WHERE no = ANY (%(nos)s)

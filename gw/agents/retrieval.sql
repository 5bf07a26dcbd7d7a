-- retrieve --
-- The pages of an agent's bases that match a question (see the function).
SELECT is_readable, kb_id, id, title, body FROM kb_retrieve(%(account)s, %(user)s, %(kbs)s::text[], %(name)s,
    %(numbers)s::integer[], %(alternatives)s::integer[], %(lexemes)s::text[], %(costs)s::integer[],
    %(phrase_numbers)s::integer[], %(phrases)s::text[], %(phrase_lexemes)s::text[],
    %(near)s, %(near_terms)s, %(near_query)s, %(mark)s, %(budget)s, %(limit)s, %(characters)s)

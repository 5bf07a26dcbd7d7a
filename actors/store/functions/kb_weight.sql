-- The weight of a term that occurs `frequency` times in a field of so many lexemes: BM25 with k1 = 1.2, fixed mean lengths,
-- and b = 0.75, of a title 0.4, of aliases and tags 0, because they are lists. The sum over the five fields is below 10, in
-- steps of 1/4096. The field's own factor is small, because pages are ordered by their best field first.
CREATE OR REPLACE FUNCTION kb_weight(field smallint, frequency float8, lexemes integer) RETURNS float8 LANGUAGE sql IMMUTABLE
AS $$
    SELECT 4096 * ('{3,2.5,2,1.5,1}'::float8[])[field + 1] * frequency / (frequency
        + ('{0.72,1.2,1.2,0.3,0.3}'::float8[])[field + 1] + ('{0.08,0,0,0.056,0.006}'::float8[])[field + 1] * lexemes)
$$;

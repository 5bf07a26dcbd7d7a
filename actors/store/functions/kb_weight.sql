-- How much a page is about what stands `frequency` times in a field of so many lexemes. The frequency saturates, and counts
-- for less in a long text (BM25 with k1 = 1.2, fixed lengths, and b = 0.75, of a title 0.4; aliases and tags are lists,
-- of which a long one weighs no less). The sum over the five fields is below 10, and kept in steps of 1/4096. The field
-- itself weighs little here, because pages are ordered by their best one before.
CREATE OR REPLACE FUNCTION kb_weight(field smallint, frequency float8, lexemes integer) RETURNS float8 LANGUAGE sql IMMUTABLE
AS $$
    SELECT 4096 * ('{3,2.5,2,1.5,1}'::float8[])[field + 1] * frequency / (frequency
        + ('{0.72,1.2,1.2,0.3,0.3}'::float8[])[field + 1] + ('{0.08,0,0,0.056,0.006}'::float8[])[field + 1] * lexemes)
$$;

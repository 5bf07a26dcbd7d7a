-- The slots of ordered entries as a bit string.
CREATE OR REPLACE FUNCTION kb_bits(p_entries bigint[]) RETURNS bit varying LANGUAGE sql IMMUTABLE
AS $$
    SELECT repeat('0', first)::bit varying || (
        SELECT bit_or(set_bit(z.zeros, (entry >> 20)::integer - first, 1))
        FROM unnest(p_entries) AS entry, (SELECT repeat('0', last - first + 1)::bit varying AS zeros OFFSET 0) AS z)
    FROM (SELECT (p_entries[1] >> 20)::integer AS first, (p_entries[cardinality(p_entries)] >> 20)::integer AS last) AS ends
$$;

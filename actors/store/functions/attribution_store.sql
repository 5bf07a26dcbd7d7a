-- Decides which values the rows of a batch may have, and stores `other` in their place where a day has its number of them.
-- The caller holds the locks of the accounts, so that all processes together store no more.
--
-- p_attributed  {most, values: [[account, day, what, value, [place of a settlement], [place of a row]]]}, each value once;
--               `most` of them are stored of one kind in one account's day of UTC. Places count from 0.
--
-- `others` are the places, in `values`, of those that are not stored.
CREATE OR REPLACE FUNCTION attribution_store(p_attributed json, INOUT p_settlements ledger_settlement[], INOUT p_rows json,
    OUT others json)
LANGUAGE plpgsql AS $$
DECLARE
    other  record;
    number integer;
BEGIN
    WITH wanted AS MATERIALIZED (
        SELECT v ->> 0 AS account_id, (v ->> 1)::date AS day, v ->> 2 AS what, v ->> 3 AS value, place
        FROM json_array_elements(p_attributed -> 'values') WITH ORDINALITY AS x(v, place)
    ), fresh AS MATERIALIZED (
        SELECT w.account_id, w.day, w.what, w.value, w.place,
            row_number() OVER (PARTITION BY w.account_id, w.day, w.what ORDER BY w.place) AS rank
        FROM wanted w
        WHERE NOT EXISTS (SELECT FROM attribution_values k WHERE k.account_id = ANY (ARRAY[w.account_id])
                          AND k.day = ANY (ARRAY[w.day]) AND k.what = ANY (ARRAY[w.what]) AND k.value = ANY (ARRAY[w.value]))
    ), admitted AS MATERIALIZED (
        SELECT f.account_id, f.day, f.what, f.value, f.place FROM fresh f
        LEFT JOIN attribution_counts c ON c.account_id = ANY (ARRAY[f.account_id]) AND c.day = ANY (ARRAY[f.day])
            AND c.what = ANY (ARRAY[f.what])
        WHERE f.rank <= (p_attributed ->> 'most')::integer - coalesce(c.stored, 0)
    ), stored AS (
        INSERT INTO attribution_values (account_id, day, what, value)
        SELECT account_id, day, what, value FROM admitted
    ), counted AS (
        INSERT INTO attribution_counts AS c (account_id, day, what, stored)
        SELECT account_id, day, what, count(*) FROM admitted GROUP BY 1, 2, 3
        ON CONFLICT (account_id, day, what) DO UPDATE SET stored = c.stored + excluded.stored
    )
    SELECT json_agg(f.place - 1) INTO others
    FROM fresh f WHERE f.place NOT IN (SELECT a.place FROM admitted a);

    FOR other IN
        SELECT v ->> 2 AS what, v -> 4 AS settlements, v -> 5 AS rows
        FROM json_array_elements_text(others) o(place)
        CROSS JOIN LATERAL (SELECT p_attributed -> 'values' -> o.place::integer) x(v)
    LOOP
        FOR number IN SELECT 1 + p::integer FROM json_array_elements_text(other.settlements) p LOOP
            p_settlements[number].attribution := jsonb_set(p_settlements[number].attribution::jsonb,
                attribution_path(other.what), '"other"');
        END LOOP;
        FOR number IN SELECT p::integer FROM json_array_elements_text(other.rows) p LOOP
            p_rows := jsonb_set(p_rows::jsonb, ARRAY[number::text, 'attribution'] || attribution_path(other.what), '"other"');
        END LOOP;
    END LOOP;
END $$;

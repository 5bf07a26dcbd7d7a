-- sums --
-- The window's sums by status, by UTC day and by model, from pieces that are added or subtracted, in one snapshot.
-- Columns: which of the three, its value, requests, cost and tokens. Groups may be added (`groups`, `rows`).
WITH piece AS (
    SELECT * FROM unnest(%(hours)s::smallint[], %(starts)s::timestamptz[], %(ends)s::timestamptz[],
        %(signs)s::integer[]) AS x(hours, start, stop, sign)
), part AS (
    SELECT r.bucket AS at, r.key_id, r.model, r.status, p.sign * r.requests AS requests, p.sign * r.cost_nano_usd AS cost,
        p.sign * r.input_tokens AS input, p.sign * r.output_tokens AS output, p.sign * r.cached_tokens AS cached
    FROM piece p CROSS JOIN LATERAL (
        SELECT * FROM call_log_rollups
        WHERE account_id = %(account)s AND hours = p.hours AND bucket >= p.start AND bucket < p.stop
            AND (%(key)s IS NULL OR key_id = %(key)s)
        OFFSET 0
    ) r
    WHERE p.hours > 0
    UNION ALL
    SELECT l.created_at, l.key_id, l.model, l.status, p.sign, p.sign * l.cost_nano_usd,
        p.sign * l.input_tokens, p.sign * l.output_tokens, p.sign * l.cached_tokens
    FROM piece p CROSS JOIN LATERAL (
        SELECT * FROM call_logs
        WHERE account_id = %(account)s AND created_at >= p.start AND created_at < p.stop
            AND (%(key)s IS NULL OR key_id = %(key)s)
        OFFSET 0
    ) l
    WHERE p.hours = 0
), whole AS (
    SELECT (at AT TIME ZONE 'UTC')::date AS day, model, status, sum(requests) AS requests, sum(cost) AS cost,
        sum(input) AS input, sum(output) AS output, sum(cached) AS cached
    FROM part GROUP BY 1, 2, 3
){groups}
SELECT CASE WHEN grouping(status) = 0 THEN 'status' WHEN grouping(day) = 0 THEN 'day' ELSE 'model' END,
    coalesce(status, day::text, model), sum(requests)::bigint, sum(cost), sum(input)::bigint,
    sum(output)::bigint, sum(cached)::bigint
FROM whole GROUP BY GROUPING SETS ((status), (day), (model))
HAVING sum(requests) <> 0{rows}

-- groups --
-- The sums of `member` by its name: the largest by cost, and those of all others in one row, named by their number. What
-- the whole window has beyond the members is of calls without one.
, grouped AS MATERIALIZED (
    SELECT name, total_of(requests) AS requests, total_of(cost) AS cost, total_of(input) AS input,
        total_of(output) AS output, total_of(cached) AS cached
    FROM member WHERE name IS NOT NULL GROUP BY 1 HAVING total_of(requests) <> 0
), known AS MATERIALIZED (
    SELECT count(*) AS groups, coalesce(total_of(requests), 0) AS requests, coalesce(total_of(cost), 0) AS cost,
        coalesce(total_of(input), 0) AS input, coalesce(total_of(output), 0) AS output, coalesce(total_of(cached), 0) AS cached
    FROM grouped
), every AS MATERIALIZED (
    SELECT sum(requests)::bigint AS requests, sum(cost)::bigint AS cost, sum(input)::bigint AS input,
        sum(output)::bigint AS output, sum(cached)::bigint AS cached
    FROM whole
), largest AS MATERIALIZED (
    SELECT * FROM (
        SELECT * FROM grouped
        UNION ALL
        SELECT NULL, e.requests - k.requests, e.cost - k.cost, e.input - k.input, e.output - k.output, e.cached - k.cached
        FROM every e, known k WHERE e.requests <> k.requests
    ) named
    ORDER BY cost DESC, requests DESC, name COLLATE "C" NULLS LAST LIMIT %(most)s
)

-- rows --
-- The rows of `groups`.
UNION ALL
SELECT 'group', name, requests, cost, input, output, cached FROM largest
UNION ALL
SELECT 'rest', (k.groups + (e.requests <> k.requests)::integer - %(most)s)::text, e.requests - l.requests, e.cost - l.cost,
    e.input - l.input, e.output - l.output, e.cached - l.cached
FROM every e, known k,
    (SELECT sum(requests)::bigint AS requests, sum(cost)::bigint AS cost, sum(input)::bigint AS input,
         sum(output)::bigint AS output, sum(cached)::bigint AS cached FROM largest) l
WHERE k.groups + (e.requests <> k.requests)::integer > %(most)s

-- of_rows --
-- Members by what every row has.
, member AS (SELECT {name} AS name, requests, cost, input, output, cached FROM part)

-- of_attribution --
-- Members by what rows say of whom their calls were for. Of ten thousand values in a month that is half a million sums: those
-- of whole days, at the ends and in days that have none those of three hours, which a key has none of, or of one.
, day AS MATERIALIZED (
    SELECT day.start, p.sign, EXISTS (
        SELECT FROM call_log_attributed_built b
        WHERE b.account_id = %(account)s AND b.hours = 24 AND b.start = day.start AND b.is_built) AS has_sums
    FROM piece p CROSS JOIN LATERAL generate_series(p.start, p.stop - interval '1 day', '1 day') AS day (start)
    WHERE p.hours = 24
), stretch AS (
    SELECT start, stop, sign, date_bin('3 hours', start + interval '2 hours', '2000-01-01 00:00:00+00') AS first_three,
        date_bin('3 hours', stop, '2000-01-01 00:00:00+00') AS last_three
    FROM piece WHERE hours = 1
), three AS MATERIALIZED (
    SELECT t.start, t.sign, %(key)s IS NULL AND EXISTS (
        SELECT FROM call_log_attributed_built b
        WHERE b.account_id = %(account)s AND b.hours = 3 AND b.start = t.start AND b.is_built) AS has_sums
    FROM (
        SELECT three.start, d.sign
        FROM day d CROSS JOIN LATERAL generate_series(d.start, d.start + interval '21 hours', '3 hours') AS three (start)
        WHERE NOT d.has_sums
        UNION ALL
        SELECT three.start, s.sign
        FROM stretch s
        CROSS JOIN LATERAL generate_series(s.first_three, s.last_three - interval '3 hours', '3 hours') AS three (start)
    ) t
), member AS (
    SELECT r.value AS name, p.sign * r.requests AS requests, p.sign * r.cost_nano_usd AS cost,
        p.sign * r.input_tokens AS input, p.sign * r.output_tokens AS output, p.sign * r.cached_tokens AS cached
    FROM (
        SELECT 24 AS hours, start, sign FROM day WHERE has_sums
        UNION ALL
        SELECT 3, start, sign FROM three WHERE has_sums
    ) p CROSS JOIN LATERAL (
        SELECT value, requests, cost_nano_usd, input_tokens, output_tokens, cached_tokens FROM call_log_attributed_spans
        WHERE account_id = %(account)s AND what = %(what)s AND key_id = coalesce(%(key)s, '') AND hours = p.hours
            AND start = p.start
        OFFSET 0
    ) r
    UNION ALL
    SELECT r.value, p.sign * r.requests, p.sign * r.cost_nano_usd, p.sign * r.input_tokens, p.sign * r.output_tokens,
        p.sign * r.cached_tokens
    FROM (
        SELECT start, start + interval '3 hours' AS stop, sign FROM three WHERE NOT has_sums
        UNION ALL
        SELECT start, least(first_three, stop), sign FROM stretch
        UNION ALL
        SELECT greatest(first_three, last_three), stop, sign FROM stretch
    ) p CROSS JOIN LATERAL (
        SELECT value, requests, cost_nano_usd, input_tokens, output_tokens, cached_tokens FROM call_log_attributed
        WHERE account_id = %(account)s AND what = %(what)s AND bucket >= p.start AND bucket < p.stop
            AND (%(key)s IS NULL OR key_id = %(key)s)
        OFFSET 0
    ) r
    UNION ALL
    SELECT l.attribution #>> %(path)s, p.sign::bigint, p.sign * l.cost_nano_usd,
        p.sign * l.input_tokens, p.sign * l.output_tokens, p.sign * l.cached_tokens
    FROM piece p CROSS JOIN LATERAL (
        SELECT * FROM call_logs
        WHERE account_id = %(account)s AND created_at >= p.start AND created_at < p.stop
            AND (%(key)s IS NULL OR key_id = %(key)s)
        OFFSET 0
    ) l
    WHERE p.hours = 0
)

-- names_of_keys --
-- The names of some keys.
SELECT id, name FROM keys WHERE id = ANY (%s)

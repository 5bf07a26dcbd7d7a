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
), lacking AS (
    SELECT NULL::text, w.requests - g.requests, w.cost - g.cost, w.input - g.input, w.output - g.output, w.cached - g.cached
    FROM (SELECT sum(requests) AS requests, sum(cost) AS cost, sum(input) AS input, sum(output) AS output,
              sum(cached) AS cached FROM whole) w,
        (SELECT coalesce(sum(requests), 0) AS requests, coalesce(sum(cost), 0) AS cost, coalesce(sum(input), 0) AS input,
             coalesce(sum(output), 0) AS output, coalesce(sum(cached), 0) AS cached FROM grouped) g
    WHERE w.requests <> g.requests
), ranked AS MATERIALIZED (
    SELECT x.*, row_number() OVER (ORDER BY cost DESC, requests DESC, name COLLATE "C" NULLS LAST) AS rank
    FROM (SELECT * FROM grouped UNION ALL SELECT * FROM lacking) x
)

-- rows --
-- The rows of `groups`.
UNION ALL
SELECT 'group', name, requests::bigint, cost, input::bigint, output::bigint, cached::bigint FROM ranked WHERE rank <= %(most)s
UNION ALL
SELECT 'rest', count(*)::text, sum(requests)::bigint, sum(cost), sum(input)::bigint, sum(output)::bigint, sum(cached)::bigint
FROM ranked WHERE rank > %(most)s HAVING count(*) > 0

-- of_rows --
-- Members by what every row has.
, member AS (SELECT {name} AS name, requests, cost, input, output, cached FROM part)

-- of_attribution --
-- Members by what rows say of whom their calls were for.
, member AS (
    SELECT r.value AS name, p.sign * r.requests AS requests, p.sign * r.cost AS cost,
        p.sign * r.input AS input, p.sign * r.output AS output, p.sign * r.cached AS cached
    FROM piece p CROSS JOIN LATERAL (
        -- Of ten thousand values in a month that is half a million rows: each is multiplied once.
        SELECT value, total_of(requests) AS requests, total_of(cost_nano_usd) AS cost, total_of(input_tokens) AS input,
            total_of(output_tokens) AS output, total_of(cached_tokens) AS cached
        FROM (
            SELECT * FROM call_log_attributed
            WHERE account_id = %(account)s AND hours = p.hours AND what = %(what)s AND bucket >= p.start AND bucket < p.stop
                AND (%(key)s IS NULL OR key_id = %(key)s)
            UNION ALL
            -- The hours of days that have no sums yet.
            SELECT h.* FROM generate_series(p.start, p.stop - interval '1 day', '1 day') AS day (start)
            CROSS JOIN LATERAL (
                SELECT * FROM call_log_attributed
                WHERE account_id = %(account)s AND hours = 1 AND what = %(what)s
                    AND bucket >= day.start AND bucket < day.start + interval '1 day'
                    AND (%(key)s IS NULL OR key_id = %(key)s)
                OFFSET 0
            ) h
            WHERE p.hours = 24 AND NOT EXISTS (
                SELECT FROM call_log_attributed_days d
                WHERE d.account_id = %(account)s AND d.day = (day.start AT TIME ZONE 'UTC')::date)
        ) s
        GROUP BY value
    ) r
    WHERE p.hours > 0
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

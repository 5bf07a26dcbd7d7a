-- Queries of the call log's list. Parameters are substituted before the server plans the text, so an
-- absent filter (NULL) costs nothing, and plans depend on the values. `{passes}` and `{in_bucket}` are the
-- two conditions below; `direction` is 1 or -1.

-- passes --
-- Whether a row is within the window, after the cursor, and passes every filter.
account_id = %(account)s AND (%(key)s IS NULL OR key_id = %(key)s)
    AND created_at BETWEEN %(first)s AND %(last)s
    AND (%(after_at)s IS NULL
        OR %(direction)s < 0 AND (created_at, id) < (%(after_at)s::timestamptz, %(after_id)s)
        OR %(direction)s > 0 AND (created_at, id) > (%(after_at)s::timestamptz, %(after_id)s))
    AND (%(models)s::text[] IS NULL OR model = ANY (%(models)s))
    AND (%(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s))
    AND (%(unit_types)s::text[] IS NULL OR unit_type = ANY (%(unit_types)s)
        OR %(token_billed)s AND unit_type IS NULL)
    AND (%(error_codes)s::text[] IS NULL OR error_code = ANY (%(error_codes)s))
    AND (%(end_users)s::text[] IS NULL OR attribution ->> 'end_user' = ANY (%(end_users)s))
    AND (%(sessions)s::text[] IS NULL OR attribution ->> 'session' = ANY (%(sessions)s))
    AND (%(runs)s::text[] IS NULL OR attribution ->> 'run' = ANY (%(runs)s))
    AND (%(labels)s::json IS NULL OR NOT EXISTS (
        SELECT FROM json_each(%(labels)s::json) f WHERE (f.value::jsonb ? (attribution -> 'labels' ->> f.key)) IS NOT TRUE))

-- in_bucket --
-- The same for a sum: whether it may count rows that pass.
account_id = %(account)s AND (%(key)s IS NULL OR key_id = %(key)s)
    AND bucket <= %(last)s
    AND (%(models)s::text[] IS NULL OR model = ANY (%(models)s))
    AND (%(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s))
    AND (%(unit_types)s::text[] IS NULL OR unit_type = ANY (%(unit_types)s)
        OR %(token_billed)s AND unit_type = '')
    AND (%(error_codes)s::text[] IS NULL OR error_code = ANY (%(error_codes)s))

-- newest_first --
-- A page in descending order, by an index.
SELECT * FROM call_log_rows WHERE {passes}
ORDER BY created_at DESC, id DESC LIMIT %(limit)s

-- oldest_first --
-- A page in ascending order, by an index.
SELECT * FROM call_log_rows WHERE {passes}
ORDER BY created_at, id LIMIT %(limit)s

-- busy_days --
-- The days with rows that pass the filters, in the order of the page, with their numbers.
SELECT bucket, sum(requests)::bigint FROM call_log_rollups
WHERE hours = 24 AND bucket >= %(first_day)s AND {in_bucket}
GROUP BY bucket ORDER BY %(direction)s * extract(epoch FROM bucket)

-- busy_hours --
-- The same for the hours of some days.
SELECT hour.bucket, hour.requests FROM unnest(%(days)s::timestamptz[]) AS day (start)
CROSS JOIN LATERAL (
    SELECT bucket, sum(requests)::bigint AS requests FROM call_log_rollups
    WHERE hours = 1 AND bucket >= day.start AND bucket < day.start + interval '1 day'
        AND bucket >= %(first_hour)s AND {in_bucket}
    GROUP BY bucket
) hour
ORDER BY %(direction)s * extract(epoch FROM hour.bucket)

-- attributed_days --
-- The days of rows that have one of these values, in the order of the page, with their numbers: by the sums of the day, or
-- of its hours while it has none.
SELECT day.start, r.requests
FROM generate_series(greatest(%(first_day)s::timestamptz, (
        SELECT date_trunc('day', min(bucket), 'UTC') FROM call_log_attributed
        WHERE account_id = %(account)s AND what = %(what)s)),
    least(%(last)s::timestamptz, (
        SELECT max(bucket) FROM call_log_attributed
        WHERE account_id = %(account)s AND what = %(what)s)), '1 day') AS day (start)
CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM call_log_attributed_built d
        WHERE d.account_id = %(account)s AND d.hours = 24 AND d.start = day.start AND d.is_built) AS has_sums OFFSET 0
) b
CROSS JOIN LATERAL (
    SELECT sum(requests)::bigint AS requests FROM (
        SELECT requests FROM call_log_attributed_spans
        WHERE account_id = %(account)s AND what = %(what)s AND key_id = coalesce(%(key)s, '') AND hours = 24
            AND start = day.start AND value = ANY (%(values)s)
        UNION ALL
        SELECT h.requests
        FROM generate_series(day.start, CASE WHEN NOT b.has_sums THEN day.start + interval '23 hours' END, '1 hour')
            AS hour (start)
        CROSS JOIN LATERAL (
            SELECT requests FROM call_log_attributed
            WHERE account_id = %(account)s AND what = %(what)s AND bucket = hour.start AND value = ANY (%(values)s)
                AND (%(key)s IS NULL OR key_id = %(key)s)
            OFFSET 0
        ) h
    ) s
    OFFSET 0
) r
WHERE r.requests > 0
ORDER BY %(direction)s * extract(epoch FROM day.start)

-- attributed_hours --
-- The same for the hours of some days.
SELECT hour.start, sum(r.requests)::bigint
FROM unnest(%(days)s::timestamptz[]) AS day (start)
CROSS JOIN LATERAL generate_series(day.start, day.start + interval '23 hours', '1 hour') AS hour (start)
CROSS JOIN LATERAL (
    SELECT requests FROM call_log_attributed
    WHERE account_id = %(account)s AND what = %(what)s AND bucket = hour.start AND value = ANY (%(values)s)
        AND (%(key)s IS NULL OR key_id = %(key)s)
    OFFSET 0
) r
WHERE hour.start BETWEEN %(first_hour)s AND %(last)s
GROUP BY 1 ORDER BY %(direction)s * extract(epoch FROM hour.start)

-- in_buckets --
-- A page from some hours or days, by whichever index fits the filters; OFFSET keeps them separate.
WITH page AS (
    SELECT l.created_at, l.id FROM unnest(%(buckets)s::timestamptz[]) AS bucket (start)
    CROSS JOIN LATERAL (
        SELECT created_at, id FROM call_logs
        WHERE created_at >= bucket.start AND created_at < bucket.start + %(width)s AND {passes}
        OFFSET 0
    ) l
    ORDER BY %(direction)s * extract(epoch FROM l.created_at), %(direction)s * l.id LIMIT %(limit)s
)
SELECT r.* FROM page JOIN call_log_rows r USING (created_at, id)
ORDER BY %(direction)s * extract(epoch FROM r.created_at), %(direction)s * r.id

-- by_ref --
-- The rows of one call, by its request id or its task id, if they pass.
WITH found AS MATERIALIZED (
    SELECT created_at, id FROM call_logs WHERE request_id = %(trace)s::uuid
    UNION
    SELECT created_at, id FROM call_logs WHERE task_id = %(ref)s
)
SELECT r.* FROM found JOIN call_log_rows r USING (created_at, id) WHERE {passes}
ORDER BY %(direction)s * extract(epoch FROM r.created_at), %(direction)s * r.id LIMIT %(limit)s

-- in_flight --
-- Jobs that have not settled, the newest first, once they own their holds; a call with a synchronous response is none.
SELECT j.id, j.call_id::text, j.submitted_at, j.key_id, k.name, k.prefix, j.model, h.amount_nano_usd,
    h.call -> 'attribution'
FROM jobs j JOIN holds h ON h.call_id = j.call_id LEFT JOIN keys k ON k.id = j.key_id
WHERE j.account_id = %(account)s AND (%(key)s IS NULL OR j.key_id = %(key)s)
    AND j.kind = ANY ('{video,music,speech,avatar}') AND j.state = ANY ('{queued,running}')
    AND j.upstream_id IS NOT NULL AND j.deleted_at IS NULL
ORDER BY j.created_at DESC LIMIT %(limit)s

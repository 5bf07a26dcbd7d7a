-- An instant as RFC 3339 in UTC, with microseconds unless they are zero, as `format_instant` writes it; null of null.
CREATE OR REPLACE FUNCTION instant_text(p_at timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT to_char(p_at AT TIME ZONE 'UTC', CASE WHEN date_trunc('second', p_at) = p_at
        THEN 'YYYY-MM-DD"T"HH24:MI:SS"Z"' ELSE 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"' END)
$$;

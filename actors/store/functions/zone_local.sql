-- The local time of an instant in a zone: an IANA name, or ±HH:MM east of UTC.
CREATE OR REPLACE FUNCTION zone_local(p_at timestamptz, p_zone text) RETURNS timestamp LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_zone ~ '^[+-]' THEN p_at AT TIME ZONE p_zone::interval ELSE p_at AT TIME ZONE p_zone END
$$;

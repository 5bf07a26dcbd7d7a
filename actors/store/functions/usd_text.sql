-- Nano-USD as plain decimal USD, as `format_usd` writes them.
CREATE OR REPLACE FUNCTION usd_text(p_nano bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT trim_scale(p_nano * 0.000000001)::text
$$;

-- Whether a webhook of these types (null: all but call.settled) and this account (null: all) is sent an event.
CREATE OR REPLACE FUNCTION webhook_takes(p_types text[], p_account text, p_type text, p_event_account text)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (p_account IS NULL OR p_event_account IS NOT DISTINCT FROM p_account)
        AND CASE WHEN p_types IS NULL THEN p_type <> 'call.settled'
            ELSE p_types && ARRAY[p_type, split_part(p_type, '.', 1) || '.*'] END
$$;

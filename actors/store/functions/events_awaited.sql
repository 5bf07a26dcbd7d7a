-- The least number of an event that a webhook has still to deliver, which is kept however old it is; null: none.
CREATE OR REPLACE FUNCTION events_awaited() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT NULL::bigint
$$;

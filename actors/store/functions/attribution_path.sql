-- Where a row's `attribution` has a value of this kind: `end_user`, `session`, `run`, or `label.` and its key.
CREATE OR REPLACE FUNCTION attribution_path(p_what text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_what LIKE 'label.%' THEN ARRAY['labels', substr(p_what, 7)] ELSE ARRAY[p_what] END
$$;

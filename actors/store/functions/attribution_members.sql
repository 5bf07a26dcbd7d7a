-- What a row's `attribution` has, each with its kind: `end_user`, `session`, `run`, or `label.` and its key.
CREATE OR REPLACE FUNCTION attribution_members(p_attribution json) RETURNS TABLE (what text, value text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT key, value FROM json_each_text(p_attribution) WHERE key <> 'labels'
    UNION ALL
    SELECT 'label.' || key, value FROM json_each_text(p_attribution -> 'labels')
$$;

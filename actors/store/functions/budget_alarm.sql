-- The spending at which the next warning of a sum is due; null: none is left. Spending that warns or exhausts nothing, as
-- none does, is no alarm: it is at least 1.
CREATE OR REPLACE FUNCTION budget_alarm(p_limit bigint, p_warn_at smallint[], p_warned smallint[], p_is_told_of_limit boolean)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(1, least(
        (SELECT min(ceil(p_limit::numeric * w / 100))::bigint FROM unnest(p_warn_at) w WHERE w <> ALL (p_warned)),
        CASE WHEN NOT p_is_told_of_limit THEN p_limit END))
    WHERE NOT p_is_told_of_limit OR EXISTS (SELECT FROM unnest(p_warn_at) w WHERE w <> ALL (p_warned))
$$;

-- Whether nodes have room for what calls admitted in memory need of them beside what is leased, so that the leases may stay
-- what they are.
--
-- p_needed [[account_id, budget_id, subject, period_from, amount], …]
CREATE OR REPLACE FUNCTION budget_covers(p_needed json) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    covers   boolean;
    is_moved boolean;
BEGIN
    SELECT bool_and(coalesce(coalesce(b.limit_nano_usd, s.limit_nano_usd)
            - s.spent_nano_usd - s.held_nano_usd - s.leased_nano_usd >= (n ->> 4)::bigint, false)),
        bool_or(s.bound_nano_usd IS DISTINCT FROM coalesce(b.limit_nano_usd, s.limit_nano_usd))
    INTO covers, is_moved
    FROM json_array_elements(p_needed) n
    LEFT JOIN budget_sums s ON s.account_id = ANY (ARRAY[n ->> 0]) AND s.budget_id = ANY (ARRAY[n ->> 1])
        AND s.subject = ANY (ARRAY[n ->> 2]) AND s.period_from = ANY (ARRAY[(n ->> 3)::timestamptz])
    LEFT JOIN budgets b ON b.id = ANY (ARRAY[n ->> 1]);
    IF covers AND is_moved THEN -- the limit has changed since the last grant
        UPDATE budget_sums s SET bound_nano_usd = coalesce(b.limit_nano_usd, s.limit_nano_usd)
        FROM json_array_elements(p_needed) n LEFT JOIN budgets b ON b.id = ANY (ARRAY[n ->> 1])
        WHERE s.account_id = ANY (ARRAY[n ->> 0]) AND s.budget_id = ANY (ARRAY[n ->> 1])
            AND s.subject = ANY (ARRAY[n ->> 2]) AND s.period_from = ANY (ARRAY[(n ->> 3)::timestamptz]);
    END IF;
    RETURN coalesce(covers, true);
END $$;

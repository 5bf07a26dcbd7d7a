-- Makes the sums of one span that is begun, out of those of its hours; returns whether there was one. No batch waits for it
-- but one with a row of that very span (`attributed_await`), which is either among the hours or adds to both.
CREATE OR REPLACE FUNCTION attributed_build() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    span call_log_attributed_built;
BEGIN
    SELECT * INTO span FROM call_log_attributed_built WHERE NOT is_built LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO call_log_attributed_spans (account_id, what, key_id, hours, start, value, requests, cost_nano_usd, input_tokens,
        output_tokens, cached_tokens)
    WITH RECURSIVE kinds (what) AS (
        SELECT min(what) FROM call_log_attributed WHERE account_id = span.account_id
        UNION ALL
        SELECT (SELECT min(h.what) FROM call_log_attributed h WHERE h.account_id = span.account_id AND h.what > k.what)
        FROM kinds k WHERE k.what IS NOT NULL
    ), summed AS (
        SELECT h.what, CASE WHEN grouping(h.key_id) = 0 THEN h.key_id ELSE '' END AS key_id, h.value,
            total_of(h.requests) AS requests, total_of(h.cost_nano_usd) AS cost, total_of(h.input_tokens) AS input,
            total_of(h.output_tokens) AS output, total_of(h.cached_tokens) AS cached
        FROM kinds k JOIN call_log_attributed h ON h.account_id = span.account_id AND h.what = k.what
            AND h.bucket >= span.start AND h.bucket < span.start + span.hours * interval '1 hour'
        GROUP BY GROUPING SETS ((h.what, h.value, h.key_id), (h.what, h.value))
    )
    SELECT span.account_id, what, key_id, span.hours, span.start, value, requests, cost, input, output, cached
    FROM summed WHERE span.hours = 24 OR key_id = ''
    ORDER BY what, key_id, value; -- as a summary reads them
    UPDATE call_log_attributed_built b SET is_built = true
    WHERE (b.account_id, b.hours, b.start) = (span.account_id, span.hours, span.start);
    RETURN true;
END $$;

-- tokens_by_model --
-- What calls of the last so many days counted, a row for each model of these that had any.
SELECT model, count(*), sum(input_tokens)::bigint, sum(cached_tokens)::bigint,
    sum(coalesce((detail ->> 'cache_write')::bigint, 0))::bigint, sum(output_tokens)::bigint
FROM call_logs
WHERE created_at >= now() - make_interval(days => %(days)s) AND model = ANY (%(models)s)
    AND unit_type IS NULL AND cost_nano_usd > 0
GROUP BY model

-- give_sample --
-- Write a process's sample, if it is due or any console is watched; the row with an empty process marks the latter.
WITH watched AS (
    INSERT INTO console_samples (process_id, taken_at, sample) SELECT '', now(), '{}' WHERE %(is_watched)s
    ON CONFLICT (process_id) DO UPDATE SET taken_at = excluded.taken_at
)
INSERT INTO console_samples (process_id, taken_at, sample)
SELECT %(process)s, now(), %(sample)s
WHERE %(is_due)s OR %(is_watched)s OR EXISTS (
    SELECT FROM console_samples
    WHERE process_id = '' AND taken_at > now() - %(seconds)s * interval '1 second'
)
ON CONFLICT (process_id) DO UPDATE SET taken_at = excluded.taken_at, sample = excluded.sample

-- samples --
-- The samples of live processes; old ones are deleted.
WITH gone AS (DELETE FROM console_samples WHERE taken_at < now() - interval '1 minute')
SELECT s.process_id, s.taken_at, s.sample FROM console_samples s
WHERE s.taken_at > now() - %(seconds)s * interval '1 second' AND EXISTS (
    SELECT FROM processes p WHERE p.buried_at IS NULL AND split_part(p.id, '.', 1) = s.process_id
)

-- wallets --
-- The number, balances and holds of all accounts.
SELECT count(*), coalesce(sum(balance_nano_usd), 0), coalesce(sum(held_nano_usd), 0) FROM accounts

-- today --
-- An account's calls of this UTC day, and its balance.
SELECT a.balance_nano_usd, a.held_nano_usd, coalesce(sum(r.requests), 0)::bigint,
    coalesce(sum(r.requests) FILTER (WHERE r.status = 'error'), 0)::bigint, coalesce(sum(r.cost_nano_usd), 0)::bigint,
    coalesce(sum(r.input_tokens), 0)::bigint, coalesce(sum(r.cached_tokens), 0)::bigint
FROM accounts a LEFT JOIN call_log_rollups r ON r.account_id = a.id AND r.hours = 24
    AND r.bucket = date_trunc('day', now(), 'UTC')
WHERE a.id = %s GROUP BY a.id

-- saved_today --
-- The cached input of this day, by model.
SELECT model, sum(cached_tokens)::bigint FROM call_log_rollups
WHERE account_id = %s AND hours = 24 AND bucket = date_trunc('day', now(), 'UTC') AND cached_tokens > 0
GROUP BY model

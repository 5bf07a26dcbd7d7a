-- make --
-- Make the call log's partitions for the month of this day and the next two, and for the rows in the default one.
SELECT call_logs_make_partitions(%s::date, 3)

-- unbegun --
-- The accounts that have spans without sums which are over.
SELECT DISTINCT c.account_id
FROM (SELECT account_id, day, max(stored) AS stored FROM attribution_counts GROUP BY 1, 2) c
CROSS JOIN LATERAL attributed_spans(c.day, c.stored) s
WHERE NOT EXISTS (SELECT FROM call_log_attributed_built b WHERE (b.account_id, b.hours, b.start) = (c.account_id, s.hours, s.start))

-- begin --
-- Begin the sums of an account's spans.
SELECT attributed_begin(%s)

-- build --
-- Make the sums of one span; whether there was one.
SELECT attributed_build()

-- forget_values --
-- Delete the values that rows of days before this one could have, and their numbers.
WITH counts AS (DELETE FROM attribution_counts WHERE day < %(day)s)
DELETE FROM attribution_values WHERE day < %(day)s

-- drop --
-- Drop the oldest month before this day's.
SELECT month, row_count, cost_nano_usd FROM call_logs_drop_month(%s::date)

-- make_entries --
-- Make the entries' partitions in the same way.
SELECT entries_make_months(%s::date, 3)

-- drop_entries --
-- Drop the oldest month of entries, if it ended by this day and has its checkpoint.
SELECT month, entry_count FROM entries_drop_month(%s::date)

-- purge_jobs --
-- Delete jobs that ended before this day, at most so many.
SELECT jobs_purge(%s::date, %s)

-- make --
-- Make the call log's partitions for the month of this day and the next two, and for the rows in the default one.
SELECT call_logs_make_partitions(%s::date, 3)

-- build_day --
-- Add up one day that is over; whether there was one.
SELECT attributed_build_day()

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

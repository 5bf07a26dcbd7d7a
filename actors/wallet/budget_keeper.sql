-- forget_runs --
-- Forget the ceilings of runs so many days after their last hold, at most so many.
SELECT budget_runs_forget(%s, %s)

-- purge_sums --
-- Delete sums of budgets 400 days after their end, at most so many.
SELECT budget_sums_purge(%s)

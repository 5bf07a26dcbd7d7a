-- What a budget has counted for each subject in one period, by the most spent, and the periods that are no longer kept.
CREATE INDEX budget_sums_of_period ON budget_sums (budget_id, period_from);

-- A batch looks a sum up by all four columns, and may choose this index as well as the primary key: with two of them it
-- read the sums of every subject of the period.
DROP INDEX budget_sums_of_period;
CREATE INDEX budget_sums_of_period ON budget_sums (account_id, budget_id, period_from, subject);

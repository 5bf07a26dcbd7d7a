-- Only pages of a node's sums use this index, which name its condition: a batch, planned while the table is empty, would
-- look up a run by it, and read all runs of the account.
DROP INDEX budget_sums_of_period;
CREATE INDEX budget_sums_of_period ON budget_sums (account_id, budget_id, period_from) WHERE budget_id <> 'run';

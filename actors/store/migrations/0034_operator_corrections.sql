-- Corrections by operators, for the pages of accounts: few rows of many. Months that are there stay without it, because
-- writers would wait while they are read.
CREATE INDEX entries_corrections ON ONLY entries (account_id, created_at, id) WHERE kind = 'correction' AND call_id IS NULL;

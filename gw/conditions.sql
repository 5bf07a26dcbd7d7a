-- conditions --
-- The time, the last proof of the ledger, the age of the oldest hold of a call that is not in the quarantine and the delay
-- of the latest poll of a task in seconds, and the number of live processes.
SELECT now(), (SELECT proved_at FROM ledger_proofs), (SELECT faults FROM ledger_proofs),
    (SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM holds h
     WHERE process_id IS NOT NULL AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = h.call_id)),
    (SELECT greatest(coalesce(extract(epoch FROM now() - min(due_at)), 0), 0)::float8 FROM job_polls),
    (SELECT count(*) FROM processes WHERE buried_at IS NULL AND heartbeat_at > now() - interval '15 seconds')

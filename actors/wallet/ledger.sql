-- apply --
-- One batch of settlements, holds, refused rows and changes of leases in one transaction.
SELECT ledger_batch(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)::text

-- last_batch --
-- The number of a process's last batch that must not be applied twice.
SELECT batch FROM processes WHERE id = %s

-- leases_of --
-- The leases of a process on some accounts, whether they are called back, the version of their nodes, and whether runs
-- have ceilings there.
SELECT a.id, coalesce(l.amount_nano_usd, 0), l.called_at IS NOT NULL, a.budgets_version, a.run_ceilings > 0
FROM accounts a LEFT JOIN leases l ON l.account_id = a.id AND l.process_id = %(process)s WHERE a.id = ANY (%(accounts)s)

-- node_leases_of --
-- What a process leases of the nodes of some accounts.
SELECT budget_leases_now(%(process)s, %(accounts)s)::text

-- take_over --
-- Name this session as the only writer of its process, and end another that may still run one of its batches; false for
-- one that has not ended in five seconds.
SELECT set_config('application_name', %(name)s, false);
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE application_name = %(name)s AND pid <> pg_backend_pid()

-- balance --
-- Balance and held of one account.
SELECT balance_nano_usd, held_nano_usd FROM accounts WHERE id = %s

-- spending --
-- Balance and held of an account, and what one of its keys has spent and holds.
SELECT a.balance_nano_usd, a.held_nano_usd, k.spent_nano_usd, k.held_nano_usd
FROM accounts a JOIN key_spend k ON k.account_id = a.id
WHERE a.id = %s AND k.key_id = %s

-- book --
-- Book an amount that belongs to no call, and write its entry, in one statement; return the new balance, null where it
-- would be beyond the most, either way.
WITH account AS MATERIALIZED (
    SELECT id, balance_nano_usd::numeric + %(amount)s AS balance FROM accounts WHERE id = %(account)s FOR NO KEY UPDATE
), booked AS (
    UPDATE accounts a SET balance_nano_usd = f.balance
    FROM account f WHERE a.id = f.id AND abs(f.balance) <= %(most)s RETURNING a.id, a.balance_nano_usd
), entry AS (
    INSERT INTO entries (account_id, kind, amount_nano_usd, held_nano_usd, created_at)
    SELECT id, %(kind)s::entry_kind, %(amount)s, 0,
        greatest(now(), (SELECT max(m.ends_at) FROM entry_months m WHERE m.sealed_at IS NOT NULL))
    FROM booked
)
SELECT b.balance_nano_usd FROM account f LEFT JOIN booked b ON b.id = f.id

-- record_proof --
-- Record the time of the last proof, the number of faulty rows, and the faults. One row, of the last run.
INSERT INTO ledger_proofs (proved_at, faults, report) VALUES (now(), %s, json_build_object('at', now(), 'found', %s::json))
ON CONFLICT (is_last) DO UPDATE SET proved_at = excluded.proved_at, faults = excluded.faults, report = excluded.report

-- last_proof --
-- The last proof. An earlier release leaves the report of its last proof, recognised by its time.
SELECT proved_at, faults, CASE WHEN (report ->> 'at')::timestamptz = proved_at THEN report -> 'found' END
FROM ledger_proofs

-- holds_summary --
-- Number of open holds of processes, and the age of the oldest in seconds, without those of calls in the quarantine.
-- Holds of jobs, which are many, are in `job_polls`.
-- The longest time since the last heartbeat of a process with a lease.
-- Time of the last proof of the ledger, in Unix seconds, and its number of faulty rows.
-- The number of messages in the quarantine.
-- The most by which a sum of a node has passed the limit in force.
SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8,
       coalesce((SELECT extract(epoch FROM now() - min(p.heartbeat_at))
                 FROM processes p
                 WHERE EXISTS (SELECT FROM leases l WHERE l.process_id = p.id AND l.amount_nano_usd > 0)), 0)::float8,
       coalesce((SELECT extract(epoch FROM proved_at) FROM ledger_proofs), 0)::float8,
       coalesce((SELECT faults FROM ledger_proofs), 0),
       (SELECT count(*) FROM quarantine WHERE booked_at IS NULL),
       coalesce((SELECT max(overshoot_nano_usd) FROM budget_sums WHERE overshoot_nano_usd > 0), 0)
FROM holds h WHERE process_id IS NOT NULL AND NOT EXISTS (SELECT FROM quarantined_calls() q WHERE q.call_id = h.call_id)

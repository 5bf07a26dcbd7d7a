-- accounts --
-- The account that everything is asked of, and twenty small ones beside it, with their keys.
WITH account AS (
    INSERT INTO accounts (id, name)
    SELECT 'acct_' || n, 'account ' || n FROM generate_series(0, 20) n RETURNING id
)
INSERT INTO keys (id, account_id, name, kind, prefix, lookup_hash)
SELECT 'key_' || n, 'acct_' || greatest(0, n - 5), 'key ' || n, 'console', 'sk-platform-0000', n::text::bytea
FROM generate_series(0, 25) n

-- rows --
-- Rows `first` to `last` of all, evenly over the days up to now, in the order of time. Nine in ten are
-- acct_0's; its keys, models and statuses are as uneven as in real life, a few of them very rare. Each of
-- them is of one of ten thousand end users, whichever the key, of a team and of a session of a few minutes.
WITH numbered AS (
    SELECT n, %(until)s::timestamptz - %(days)s * interval '1 day' * (1 - n::float8 / %(total)s) AS at,
        hashint8extended(n, 1) & 1048575 AS a, hashint8extended(n, 2) & 1048575 AS b,
        hashint8extended(n, 3) & 1048575 AS c
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
), shaped AS (
    SELECT *,
        CASE WHEN a < 943718 THEN 0 ELSE 1 + a %% 20 END AS account,
        CASE WHEN b < 8 THEN 4 WHEN b < 100000 THEN 3 WHEN b < 250000 THEN 2 WHEN b < 500000 THEN 1 ELSE 0 END
            AS key,
        CASE WHEN c < 5 THEN 'rare-model' WHEN c < 524288 THEN 'model-0'
            ELSE 'model-' || 1 + c %% 11 END AS model,
        CASE WHEN (a # c) & 1048575 < 26000 THEN 'error' WHEN (a # c) & 1048575 < 36000 THEN 'rejected'
            WHEN (a # c) & 1048575 < 36050 THEN 'interrupted' ELSE 'success' END AS status
    FROM numbered
)
INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol, model, status,
    error_code, error_message, input_tokens, output_tokens, cached_tokens, unit_count, unit_type,
    cost_nano_usd, latency_ms, task_id, attempts, detail, attribution)
SELECT at, at - interval '2 seconds', 'acct_' || account,
    'key_' || CASE WHEN account = 0 THEN key ELSE account + 5 END, lpad(to_hex(n), 32, '0')::uuid, 'chat', model,
    status, CASE status WHEN 'error' THEN CASE WHEN b < 500 THEN 'upstream_529' ELSE 'upstream_error' END
        WHEN 'rejected' THEN 'quota_exceeded' WHEN 'interrupted' THEN 'client_disconnected' END,
    CASE WHEN status <> 'success' THEN 'What went wrong, in some sixty characters, as messages go.' END,
    b %% 4000, c %% 900, b %% 1000,
    CASE WHEN model = 'model-9' THEN 1 END, CASE WHEN model = 'model-9' THEN 'image' END,
    CASE status WHEN 'rejected' THEN 0 ELSE c * 1000 END, 900 + b %% 9000,
    CASE WHEN model = 'model-9' THEN 'task_' || n END,
    CASE WHEN (a + c) %% 50 = 0 THEN '[{"seq": 1, "created_at": 1790000000.5, "latency_ms": 40,
        "error_code": "upstream_502", "error_message": "The upstream answered with status 502."}]'::json END,
    ('{"order": [["one", "chat"], ["two", "chat"], ["three", "chat"]], "channel": "one", "hold_usd": "0.0103", "estimate": [12, 1000],
        "upstream_id": "chatcmpl-0123456789abcdef", "finish_reason": "stop", "conversation": "' || lpad(to_hex(n / 20), 16, '0')
        || '"}')::json,
    CASE account WHEN 0 THEN ('{"end_user": "user-' || (hashint8extended(n, 4) & 1048575) %% 10000 || '@example.com", "session": "'
        || lpad(to_hex(n / 40), 16, '0') || '", "labels": {"team": "team-' || c %% 20 || '"}}')::json END
FROM shaped

-- days --
-- What the ledger would have counted, so that spans of these days are added up.
INSERT INTO attribution_counts
SELECT 'acct_0', day::date, what, 10000
FROM generate_series(%(until)s::timestamptz - %(days)s * interval '1 day', %(until)s, '1 day') day,
    unnest('{end_user,session,label.team}'::text[]) what

-- forget_budgets --
-- Forget the budgets of an earlier run.
WITH sums AS (DELETE FROM budget_sums WHERE account_id = 'acct_0')
DELETE FROM budgets WHERE account_id = 'acct_0'

-- budgets --
-- As many budgets as an account may have, all but a few of single end users.
INSERT INTO budgets (id, account_id, name, scope, subject, limit_nano_usd, period, made_by, starts_at)
SELECT 'bud_' || n, 'acct_0', 'budget ' || n,
    CASE n WHEN 1 THEN 'account' WHEN 2 THEN 'every_end_user' WHEN 3 THEN 'every_run' ELSE 'end_user' END,
    CASE WHEN n > 3 THEN 'user-' || n || '@example.com' END, 1000000000000, CASE n WHEN 3 THEN 'total' ELSE 'day' END,
    CASE WHEN n % 10 = 0 THEN 'owner' ELSE 'operator' END, date_trunc('month', now())
FROM generate_series(1, 1000) n

-- sums --
-- What they have counted: of each value of the two general ones, too.
INSERT INTO budget_sums (account_id, budget_id, subject, period_from, period_to, spent_nano_usd, held_nano_usd)
SELECT 'acct_0', b.id, coalesce(v.subject, ''), p.period_from, p.period_to, hashtext(b.id || coalesce(v.subject, '')) & 1073741823,
    1000000
FROM budgets b
CROSS JOIN LATERAL budget_period(b.period, b.time_zone, b.starts_at, now()) p
LEFT JOIN LATERAL (SELECT 'value ' || n AS subject FROM generate_series(1, 10000) n) v ON b.scope LIKE 'every_%'
WHERE b.account_id = 'acct_0'

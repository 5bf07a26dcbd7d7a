-- lock --
-- Lock an account, so that its budgets change one by one; the instant of the change.
SELECT clock_timestamp() FROM accounts WHERE id = %s FOR NO KEY UPDATE

-- is_zone --
-- Whether a time zone has this name, on every host.
SELECT EXISTS (
    SELECT FROM pg_timezone_names
    WHERE name = %(name)s AND name !~ '^(posix|right)/' AND name NOT IN ('Factory', 'localtime', 'posixrules')
)

-- live --
-- The live budgets of an account, as far as another one must fit in.
SELECT name, scope, subject, period, made_by FROM budgets WHERE account_id = %s AND deleted_at IS NULL

-- insert --
-- Insert a budget.
INSERT INTO budgets (id, created_at, {{new_columns}}) VALUES (%(id)s, %(created_at)s::timestamptz, {{new_values}})

-- find --
-- Budgets with their figures in the period of an instant: the one of an id, those of an account, or all; the newest first.
-- What has a sum of each value shows that of the given user, end user or run. The present period is the one that calls
-- count in, even if the clock was put back since (`budget_periods`).
WITH moment AS MATERIALIZED (
    SELECT coalesce(%(instant)s::timestamptz, clock_timestamp()) AS at
), found AS MATERIALIZED (
    SELECT * FROM budgets b
    WHERE (%(id)s::text IS NULL OR b.id = %(id)s) AND (%(account)s::text IS NULL OR b.account_id = %(account)s)
        AND (%(deleted)s OR b.deleted_at IS NULL)
        AND (%(before_at)s::timestamptz IS NULL OR (b.created_at, b.id) < (%(before_at)s, %(before_id)s))
    ORDER BY b.created_at DESC, b.id DESC LIMIT %(limit)s
), calendar AS MATERIALIZED (  -- a period is worked out once, whatever the number of budgets
    SELECT k.period, k.time_zone, p.period_from,
        least(p.period_to, timestamptz '9999-12-31 23:59:59.999999Z') AS period_to  -- the last that readers know
    FROM moment m, (SELECT DISTINCT period, time_zone FROM found WHERE period <> 'total') k
    CROSS JOIN LATERAL budget_period(k.period, k.time_zone, '-infinity', m.at) p
)
SELECT {{columns}}
FROM moment m
CROSS JOIN found b
LEFT JOIN calendar c ON c.period = b.period AND c.time_zone = b.time_zone
LEFT JOIN budget_periods q ON q.budget_id = b.id AND q.period_from > c.period_from AND %(instant)s::timestamptz IS NULL
CROSS JOIN LATERAL (
    SELECT CASE WHEN m.at >= b.starts_at THEN coalesce(q.period_from, c.period_from, b.starts_at) END AS period_from,
        CASE WHEN q.budget_id IS NULL THEN c.period_to ELSE q.period_to END AS period_to,
        CASE b.scope WHEN 'every_user' THEN %(user)s::text WHEN 'every_end_user' THEN %(end_user)s::text
            WHEN 'every_run' THEN %(run)s::text ELSE '' END AS value
) p
LEFT JOIN budget_sums s ON s.account_id = b.account_id AND s.budget_id = b.id AND s.subject = p.value
    AND s.period_from = p.period_from
CROSS JOIN LATERAL (
    SELECT p.period_from, CASE WHEN p.period_from IS NOT NULL THEN p.period_to END AS period_to, s.exhausted_at,
        CASE WHEN p.value IS NOT NULL THEN coalesce(s.spent_nano_usd, 0) END AS spent_nano_usd,
        CASE WHEN p.value IS NOT NULL THEN coalesce(s.held_nano_usd, 0) END AS held_nano_usd,
        CASE WHEN p.value IS NOT NULL THEN coalesce(s.excess_nano_usd, 0) END AS excess_nano_usd
) x
ORDER BY b.created_at DESC, b.id DESC

-- change --
-- Change settings of a live budget, as far as given.
UPDATE budgets SET {{settings}} WHERE id = %(id)s AND deleted_at IS NULL

-- delete --
-- Delete a budget, whose sums stay.
UPDATE budgets SET deleted_at = clock_timestamp() WHERE id = %s AND deleted_at IS NULL

-- sums --
-- What a budget has counted in one period, by the most spent.
SELECT subject, spent_nano_usd, held_nano_usd, excess_nano_usd FROM budget_sums
WHERE account_id = %(account)s AND budget_id = %(id)s AND period_from = %(period_from)s
    AND budget_id <> 'run' -- as its index has it
    AND (%(spent)s::bigint IS NULL OR (-spent_nano_usd, subject) > (-%(spent)s::bigint, %(subject)s))
ORDER BY spent_nano_usd DESC, subject LIMIT %(limit)s

-- ceiling --
-- The ceiling of a run, with its sum.
SELECT limit_nano_usd, period_from, spent_nano_usd, held_nano_usd FROM budget_sums
WHERE account_id = %(account)s AND budget_id = 'run' AND subject = %(run)s AND limit_nano_usd IS NOT NULL
ORDER BY period_from DESC LIMIT 1

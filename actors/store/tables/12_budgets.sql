-- Budgets: limits on what may be spent, by scope and period, beside the balance and the caps of keys.

-- A node. `subject`: what of its scope it limits; null: of `account`, and of `every_…`, each value of which has a sum of
-- its own. `action`: refuse what passes the limit, or only say so. `warn_at`: percents of the limit.
--
-- Scope, subject, period, zone and start are for life.
CREATE TABLE budgets (
    id             text PRIMARY KEY,
    account_id     text NOT NULL REFERENCES accounts (id),
    name           some_text NOT NULL,
    scope          text NOT NULL CHECK (scope IN ('account', 'user', 'agent', 'model', 'label', 'end_user', 'run',
                                                  'every_user', 'every_end_user', 'every_run')),
    subject        text,
    limit_nano_usd non_negative NOT NULL,
    period         text NOT NULL CHECK (period IN ('day', 'week', 'month', 'total')),
    time_zone      text NOT NULL DEFAULT 'UTC',       -- IANA name or ±HH:MM
    action         text NOT NULL DEFAULT 'refuse' CHECK (action IN ('refuse', 'warn')),
    warn_at        smallint[] NOT NULL DEFAULT '{80}',
    made_by        text NOT NULL CHECK (made_by IN ('operator', 'owner')),
    starts_at      timestamptz NOT NULL DEFAULT now(),
    created_at     timestamptz NOT NULL DEFAULT now(),
    deleted_at     timestamptz,
    CONSTRAINT budgets_have_a_subject CHECK (
        (subject IS NULL) = (scope IN ('account', 'every_user', 'every_end_user', 'every_run')))
);

CREATE UNIQUE INDEX budgets_one_name ON budgets (account_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX budgets_one_node ON budgets (account_id, scope, (coalesce(subject, '')), period)
    WHERE deleted_at IS NULL;
CREATE INDEX budgets_of_account ON budgets (account_id, created_at, id);

-- Whoever changes a node: its account gets another version, and its leases are called back, in the same transaction.
CREATE TRIGGER budgets_change_account AFTER INSERT OR UPDATE OR DELETE ON budgets
    FOR EACH ROW EXECUTE FUNCTION budget_changed();

-- The present period of a node. It never goes back: neither does the database's clock for it.
CREATE TABLE budget_periods (
    budget_id   text PRIMARY KEY,
    period_from timestamptz NOT NULL,
    period_to   timestamptz             -- null: it does not end
);

-- What a node has spent and holds in one period, of one subject ('': it has none). A run's ceiling is the node `run`; its
-- sum has the limit.
--
-- spent  the costs of its settled calls; excess: the part of them that their holds did not cover
-- held   of its open calls; leased: what processes may hold without asking. spent + held + leased - excess is at most the
--        limit in force at the last grant, which is `bound`; overshoot: by how much it ever was more, which must be 0
-- alarm  when `spent` reaches it, a warning is due; null: none is left
-- carried_…  of calls whose rows have been dropped
CREATE TABLE budget_sums (
    account_id             text NOT NULL,
    budget_id              text NOT NULL,
    subject                text NOT NULL DEFAULT '',
    period_from            timestamptz NOT NULL,
    period_to              timestamptz,
    spent_nano_usd         bigint NOT NULL DEFAULT 0,
    held_nano_usd          non_negative NOT NULL DEFAULT 0,
    leased_nano_usd        non_negative NOT NULL DEFAULT 0,
    excess_nano_usd        bigint NOT NULL DEFAULT 0,
    limit_nano_usd         bigint,
    bound_nano_usd         bigint,
    overshoot_nano_usd     bigint NOT NULL DEFAULT 0,
    alarm_nano_usd         bigint,
    warned                 smallint[] NOT NULL DEFAULT '{}',
    exhausted_at           timestamptz,
    carried_spent_nano_usd  bigint NOT NULL DEFAULT 0,
    carried_excess_nano_usd bigint NOT NULL DEFAULT 0,
    first_hold_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_hold_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    id                     bigint GENERATED ALWAYS AS IDENTITY,   -- calls name it by this, so that booking reads no text
    PRIMARY KEY (account_id, budget_id, subject, period_from)
) WITH (fillfactor = 50);  -- the amounts change with every call

CREATE UNIQUE INDEX budget_sums_by_id ON budget_sums (id);

-- Only pages of a node's sums use this index, which name its condition: a batch, planned while the table is empty, would
-- look up a run by it, and read all runs of the account.
CREATE INDEX budget_sums_of_period ON budget_sums (account_id, budget_id, period_from) WHERE budget_id <> 'run';

CREATE INDEX budget_sums_overshot ON budget_sums (overshoot_nano_usd) WHERE overshoot_nano_usd > 0;

-- What processes have leased of nodes, out of which they admit calls in memory. It hangs below the account's lease and
-- ends with that, and with the period.
CREATE TABLE budget_leases (
    process_id      text NOT NULL,
    account_id      text NOT NULL,
    budget_id       text NOT NULL,
    subject         text NOT NULL,
    period_from     timestamptz NOT NULL,
    amount_nano_usd non_negative NOT NULL,
    PRIMARY KEY (process_id, account_id, budget_id, subject, period_from)
);

CREATE TRIGGER leases_end_budgets AFTER DELETE ON leases FOR EACH ROW EXECUTE FUNCTION budget_leases_end();

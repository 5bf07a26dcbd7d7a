-- The ledger's entries are kept by month, as the call log is, and each month that has ended gets a checkpoint: what its
-- entries come to, and those of them that later ones may refer to. `gw ledger verify` writes it in the transaction in
-- which it found no fault, and begins at the last one; a month may be dropped once it has its checkpoint.

-- Uniqueness is that of a month: no index holds over all of them without the month in it. What makes a settlement happen
-- once is the row in `holds` that it deletes, which no month owns.

-- The months. `name`: its table; `ends_at`: its entries came before this instant, and not before the end of the month
-- before it. Of the first month after an upgrade the table is `entries_first`: everything until then.
CREATE TABLE entry_months (
    ends_at    timestamptz PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    sealed_at  timestamptz,              -- its checkpoint was written
    entries    bigint,                   -- it had then
    dropped_at timestamptz
);

-- What the entries of a sealed month come to. Balance and spending are the sums of all sealed months and of the entries
-- since. key_id: '' for none.
CREATE TABLE checkpoint_sums (
    ends_at         timestamptz NOT NULL,
    account_id      text NOT NULL,
    key_id          text NOT NULL,
    entries         bigint NOT NULL,
    amount_nano_usd bigint NOT NULL,
    held_nano_usd   bigint NOT NULL,
    PRIMARY KEY (ends_at, account_id, key_id)
);

-- Copies of entries up to the end of a sealed month that later ones refer to or may: the holds that were open then, and
-- all entries of calls that recovery settled or a correction changed. Those of months before the last dropped one go.
CREATE TABLE checkpoint_entries (
    ends_at         timestamptz NOT NULL,
    id              bigint NOT NULL,
    account_id      text NOT NULL,
    key_id          text,
    call_id         uuid NOT NULL,
    kind            entry_kind NOT NULL,
    amount_nano_usd bigint NOT NULL,
    held_nano_usd   bigint NOT NULL,
    created_at      timestamptz NOT NULL,
    PRIMARY KEY (ends_at, id)
);

CREATE TRIGGER checkpoint_sums_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON checkpoint_sums
    FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only();
CREATE TRIGGER checkpoint_entries_never_change BEFORE UPDATE OR TRUNCATE ON checkpoint_entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only();

CREATE SEQUENCE entries_id AS bigint;

-- Makes the table of one month, apart: with what guards its rows, and no column or index more than there was.
CREATE FUNCTION entries_new_table(p_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I (LIKE entries INCLUDING DEFAULTS)', p_name);
    EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (id)', p_name);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (call_id) WHERE kind = ''hold''', p_name || '_one_hold', p_name);
    EXECUTE format('CREATE UNIQUE INDEX %I ON %I (call_id) WHERE kind IN (''settle'', ''refund'')',
        p_name || '_one_resolution', p_name);
    EXECUTE format('CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON %I'
        ' FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only()', p_name);
END $$;

-- The table that was, under another name, and the new one in its place. Who writes an entry meanwhile waits as long as
-- this takes, which does not depend on how many there are; and while it waits for its turn itself, 0.3 s of every 2.3.
-- Until the next migration has added it, the old table's entries stand apart.
DO $$
DECLARE
    border timestamptz;
    ends   timestamptz;
    name   text;
    last   bigint;
BEGIN
    FOR attempt IN 1..600 LOOP
        BEGIN
            SET LOCAL lock_timeout = '300ms';
            LOCK TABLE entries IN ACCESS EXCLUSIVE MODE;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 600 THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(2);
        END;
    END LOOP;
    SET LOCAL lock_timeout = 0;
    border := clock_timestamp();
    SELECT max(id) INTO last FROM entries;
    PERFORM setval('entries_id', coalesce(last, 0) + 1, false);
    ALTER TABLE entries ALTER COLUMN id DROP IDENTITY;
    ALTER TABLE entries RENAME TO entries_first;
    ALTER INDEX entries_pkey RENAME TO entries_first_pkey;
    ALTER INDEX entries_one_hold_per_call RENAME TO entries_first_one_hold;
    ALTER INDEX entries_one_resolution_per_call RENAME TO entries_first_one_resolution;
    CREATE TABLE entries (
        id              bigint NOT NULL DEFAULT nextval('entries_id'),
        account_id      text NOT NULL,
        key_id          text,
        call_id         uuid,
        kind            entry_kind NOT NULL,
        amount_nano_usd bigint NOT NULL,   -- effect on the balance
        held_nano_usd   bigint NOT NULL,   -- effect on what is held
        created_at      timestamptz NOT NULL DEFAULT now()
    ) PARTITION BY RANGE (created_at);
    CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
        FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only();
    -- Catches an entry whose month has no table yet, so that a settlement can never fail for it.
    PERFORM entries_new_table('entries_default');
    ALTER TABLE entries ATTACH PARTITION entries_default DEFAULT;
    -- A statement that began before this moment and waits for its turn writes before the border: into the default table.
    name := 'entries_' || to_char(border AT TIME ZONE 'UTC', 'YYYY_MM');
    ends := (date_trunc('month', border AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    IF last IS NULL THEN
        border := date_trunc('month', border AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
        DROP TABLE entries_first;
    ELSE
        INSERT INTO entry_months (ends_at, name) VALUES (border, 'entries_first');
    END IF;
    PERFORM entries_new_table(name);
    EXECUTE format('ALTER TABLE entries ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, border, ends);
    INSERT INTO entry_months (ends_at, name) VALUES (ends, name);
END $$;

-- Makes the tables of so many months, and of every month that has entries in the default one, which move: as
-- `call_logs_make_partitions` does, and as little in anybody's way.
CREATE FUNCTION entries_make_months(p_first date, p_months integer) RETURNS integer LANGUAGE plpgsql
SET lock_timeout = '2s' AS $$
DECLARE
    month date;
    made  integer := 0;
    name  text;
    since timestamptz;
    ends  timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('entries_months'));
    FOREACH month IN ARRAY ARRAY(
        SELECT (date_trunc('month', p_first) + make_interval(months => step))::date
        FROM generate_series(0, p_months - 1) step
        UNION
        SELECT date_trunc('month', created_at AT TIME ZONE 'UTC')::date FROM entries_default
        ORDER BY 1)
    LOOP
        name := 'entries_' || to_char(month, 'YYYY_MM');
        ends := (month + interval '1 month') AT TIME ZONE 'UTC';
        CONTINUE WHEN EXISTS (SELECT FROM entry_months m WHERE m.ends_at = ends);
        since := greatest(month::timestamp AT TIME ZONE 'UTC',
            (SELECT max(m.ends_at) FROM entry_months m WHERE m.ends_at < ends));
        PERFORM entries_new_table(name);
        LOCK TABLE ONLY entries IN SHARE UPDATE EXCLUSIVE MODE;
        LOCK TABLE entries_default IN ACCESS EXCLUSIVE MODE;
        ALTER TABLE entries_default DISABLE TRIGGER entries_append_only;
        EXECUTE format('WITH moved AS (DELETE FROM entries_default WHERE created_at >= %L AND created_at < %L'
            ' RETURNING *) INSERT INTO %I SELECT * FROM moved', since, ends, name);
        ALTER TABLE entries_default ENABLE TRIGGER entries_append_only;
        EXECUTE format('ALTER TABLE entries ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, since, ends);
        INSERT INTO entry_months (ends_at, name) VALUES (ends, name);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;

-- The entries that concern calls from this end of a month on: those since, and what its checkpoint carries.
CREATE FUNCTION entries_since(p_since timestamptz)
RETURNS TABLE (id bigint, account_id text, key_id text, call_id uuid, kind entry_kind, amount_nano_usd bigint,
    held_nano_usd bigint, created_at timestamptz) LANGUAGE sql STABLE AS $$
    SELECT e.id, e.account_id, e.key_id, e.call_id, e.kind, e.amount_nano_usd, e.held_nano_usd, e.created_at
    FROM entries e WHERE e.created_at >= p_since
    UNION ALL
    SELECT c.id, c.account_id, c.key_id, c.call_id, c.kind, c.amount_nano_usd, c.held_nano_usd, c.created_at
    FROM checkpoint_entries c WHERE c.ends_at = p_since
$$;

-- What has moved, for sums: the entries since this end of a month, and what those before came to.
CREATE FUNCTION movements(p_since timestamptz)
RETURNS TABLE (account_id text, key_id text, amount_nano_usd bigint, held_nano_usd bigint) LANGUAGE sql STABLE AS $$
    SELECT e.account_id, coalesce(e.key_id, ''), e.amount_nano_usd, e.held_nano_usd
    FROM entries e WHERE e.created_at >= p_since
    UNION ALL
    SELECT s.account_id, s.key_id, s.amount_nano_usd, s.held_nano_usd
    FROM checkpoint_sums s WHERE s.ends_at <= p_since
$$;

-- The checkpoint of the month from `p_since` to `p_ends`, as its entries and the checkpoint before have it.
CREATE FUNCTION checkpoint_sums_of(p_since timestamptz, p_ends timestamptz)
RETURNS TABLE (account_id text, key_id text, entries bigint, amount_nano_usd bigint, held_nano_usd bigint)
LANGUAGE sql STABLE AS $$
    SELECT e.account_id, coalesce(e.key_id, ''), count(*), sum(e.amount_nano_usd)::bigint, sum(e.held_nano_usd)::bigint
    FROM entries e WHERE e.created_at >= p_since AND e.created_at < p_ends
    GROUP BY 1, 2
$$;

CREATE FUNCTION checkpoint_entries_of(p_since timestamptz, p_ends timestamptz)
RETURNS TABLE (id bigint, account_id text, key_id text, call_id uuid, kind entry_kind, amount_nano_usd bigint,
    held_nano_usd bigint, created_at timestamptz) LANGUAGE sql STABLE AS $$
    WITH told AS (
        SELECT * FROM entries_since(p_since) e WHERE e.created_at < p_ends AND e.call_id IS NOT NULL
    ), later AS (
        SELECT t.call_id FROM told t GROUP BY t.call_id
        HAVING count(*) FILTER (WHERE t.kind = 'hold') > count(*) FILTER (WHERE t.kind IN ('settle', 'refund'))
        UNION SELECT r.call_id FROM recovered_calls r
        UNION SELECT c.call_id FROM call_log_corrections c
    )
    SELECT t.* FROM told t JOIN later l ON l.call_id = t.call_id
$$;

-- Drops the oldest month of entries that ended by p_first_kept and returns it; nothing where there is none, or where it
-- has to stay: it has no checkpoint, or the call log has rows that it may belong to. Raises where the checkpoint is not
-- what its entries come to. Locks as `call_logs_drop_month`.
CREATE FUNCTION entries_drop_month(p_first_kept date)
RETURNS TABLE (month text, entry_count bigint) LANGUAGE plpgsql
SET lock_timeout = '200ms' AS $$
DECLARE
    -- By this server's clock too: a gateway whose clock is ahead must not drop what is young.
    first_kept date := least(p_first_kept, date_trunc('month', now() AT TIME ZONE 'UTC')::date);
    until      timestamptz;
    is_sealed  boolean;
    differs    boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('entries_months')) THEN
        RETURN; -- another process is at it
    END IF;
    SELECT m.name, m.ends_at, m.sealed_at IS NOT NULL, m.entries INTO month, until, is_sealed, entry_count
    FROM entry_months m WHERE m.dropped_at IS NULL ORDER BY m.ends_at LIMIT 1;
    IF month IS NULL OR NOT is_sealed OR until > first_kept::timestamp AT TIME ZONE 'UTC'
        -- A row may be of the month after its entries', where its gateway's clock was ahead.
        OR EXISTS (SELECT FROM call_logs l WHERE l.created_at < until + interval '1 month') THEN
        RETURN;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM ('
        'SELECT account_id, coalesce(key_id, '''') AS key_id, count(*) AS entries, sum(amount_nano_usd) AS amount,'
        ' sum(held_nano_usd) AS held FROM %I GROUP BY 1, 2) e'
        ' FULL JOIN (SELECT * FROM checkpoint_sums WHERE ends_at = %L) s USING (account_id, key_id)'
        ' WHERE (e.entries, e.amount, e.held) IS DISTINCT FROM (s.entries, s.amount_nano_usd, s.held_nano_usd))',
        month, until) INTO differs;
    IF differs THEN
        RAISE EXCEPTION 'the checkpoint of % is not what its entries come to', month;
    END IF;
    DELETE FROM checkpoint_entries c WHERE c.ends_at < until;
    UPDATE entry_months m SET dropped_at = now() WHERE m.ends_at = until;
    EXECUTE format('DROP TABLE %I', month);
    RETURN NEXT;
END $$;

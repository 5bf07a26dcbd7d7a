-- The ledger's entries are kept by month, as the call log is, with a checkpoint of each month that has ended.

-- The months. `name`: its table; `ends_at`: its entries came before this instant, and not before the end of the month
-- before it. Of the first month after an upgrade the table is `entries_first`: everything until then.
CREATE TABLE entry_months (
    ends_at    timestamptz PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    sealed_at  timestamptz,              -- its checkpoint was written
    entries    bigint,                   -- it had then
    dropped_at timestamptz
);

-- The sums of the entries of a sealed month. Balance and spending are the sums of all sealed months and of the entries
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

-- Renames the old table and makes the new one in its place. Writers of entries wait as long as this takes, which does not
-- depend on how many entries there are; and while it waits for its lock, 0.3 s of every 2.3. Until the next migration has
-- attached it, the old table's entries stand apart.
DO $$
DECLARE
    border timestamptz;
    ends   timestamptz;
    name   text;
    part   text;
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
    name := 'entries_' || to_char(border AT TIME ZONE 'UTC', 'YYYY_MM');
    ends := (date_trunc('month', border AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC';
    IF last IS NULL THEN
        border := date_trunc('month', border AT TIME ZONE 'UTC') AT TIME ZONE 'UTC';
        DROP TABLE entries_first;
    ELSE
        INSERT INTO entry_months (ends_at, name) VALUES (border, 'entries_first');
    END IF;
    -- As `entries_new_table` makes them.
    FOREACH part IN ARRAY ARRAY['entries_default', name] LOOP
        EXECUTE format('CREATE TABLE %I (LIKE entries INCLUDING DEFAULTS)', part);
        EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (id)', part);
        EXECUTE format('CREATE UNIQUE INDEX %I ON %I (call_id) WHERE kind = ''hold''', part || '_one_hold', part);
        EXECUTE format('CREATE UNIQUE INDEX %I ON %I (call_id) WHERE kind IN (''settle'', ''refund'')',
            part || '_one_resolution', part);
        EXECUTE format('CREATE TRIGGER entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON %I'
            ' FOR EACH STATEMENT EXECUTE FUNCTION entries_are_append_only()', part);
    END LOOP;
    -- Catches an entry whose month has no table yet, so that a settlement can never fail for it; and those of statements that
    -- began before the border and wait.
    ALTER TABLE entries ATTACH PARTITION entries_default DEFAULT;
    EXECUTE format('ALTER TABLE entries ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name, border, ends);
    INSERT INTO entry_months (ends_at, name) VALUES (ends, name);
END $$;

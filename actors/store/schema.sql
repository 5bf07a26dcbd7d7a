-- Statements of the migration runner (`schema.py`).

-- lock --
-- Let one process migrate at a time; the lock is held until the transaction ends.
SELECT pg_advisory_xact_lock(%s)

-- encoding --
-- How the database stores text.
SELECT current_setting('server_encoding')

-- make_tables --
-- The tables of applied migrations and loaded functions.
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS schema_functions (
    name      text PRIMARY KEY,
    checksum  text NOT NULL,
    loaded_at timestamptz NOT NULL DEFAULT now()
);
-- Every set of functions that was ever loaded.
CREATE TABLE IF NOT EXISTS schema_function_sets (
    checksum  text PRIMARY KEY,
    loaded_at timestamptz NOT NULL DEFAULT now()
)

-- make_loader --
-- Functions that load and drop others; made only if there is something to load.
--
-- Replaces a function in place, so that callers always find one. If that is refused because of another return type, the
-- old one is dropped first. A function with other parameters is made beside the old one, which is then dropped.
CREATE OR REPLACE FUNCTION schema_load_function(p_name text, p_source text) RETURNS void LANGUAGE plpgsql AS $load$
DECLARE
    before oid[] := ARRAY(SELECT oid FROM pg_proc
                          WHERE proname = p_name AND pronamespace = current_schema()::regnamespace);
BEGIN
    SET LOCAL check_function_bodies = off; -- they call one another
    BEGIN
        EXECUTE p_source;
    EXCEPTION WHEN invalid_function_definition THEN
        PERFORM schema_drop_function(p_name, before);
        EXECUTE p_source;
        RETURN;
    END;
    IF (SELECT count(*) FROM pg_proc WHERE proname = p_name AND pronamespace = current_schema()::regnamespace)
            > cardinality(before) THEN
        PERFORM schema_drop_function(p_name, before);
    END IF;
END $load$;
CREATE OR REPLACE FUNCTION schema_drop_function(p_name text, p_which oid[]) RETURNS void LANGUAGE plpgsql AS $drop$
DECLARE
    which oid;
BEGIN
    FOR which IN
        SELECT oid FROM pg_proc WHERE proname = p_name AND pronamespace = current_schema()::regnamespace
            AND (p_which IS NULL OR oid = ANY (p_which))
    LOOP
        EXECUTE format('DROP FUNCTION %s', which::regprocedure);
    END LOOP;
END $drop$

-- has_table --
-- Whether any migration was applied to this database.
SELECT to_regclass('schema_migrations') IS NOT NULL

-- has_tables --
-- Whether there are the tables of applied migrations, of loaded functions and of their sets.
SELECT to_regclass('schema_migrations') IS NOT NULL, to_regclass('schema_functions') IS NOT NULL,
    to_regclass('schema_function_sets') IS NOT NULL

-- applied --
-- The applied migrations, in order.
SELECT version, name, checksum FROM schema_migrations ORDER BY version

-- record --
-- Record a migration as applied, in its own transaction.
INSERT INTO schema_migrations (version, name, checksum) VALUES (%s, %s, %s)

-- functions --
-- The loaded functions, and whether each is still there.
SELECT name, checksum, EXISTS (
    SELECT FROM pg_proc WHERE proname = name AND pronamespace = current_schema()::regnamespace
) FROM schema_functions

-- function_sets --
-- Every set of functions that was ever loaded.
SELECT checksum FROM schema_function_sets

-- load_function --
-- Make or replace one function.
SELECT schema_load_function(%s, %s)

-- drop_function --
-- Drop a function that was removed from the program.
WITH gone AS (DELETE FROM schema_functions WHERE name = %s RETURNING name)
SELECT schema_drop_function(name, NULL) FROM gone

-- record_function --
-- Record a function as loaded.
INSERT INTO schema_functions (name, checksum) VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, loaded_at = now()

-- record_function_set --
-- Record the set as the last one.
INSERT INTO schema_function_sets (checksum) VALUES (%s)

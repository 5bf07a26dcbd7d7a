-- make_role --
-- Make the gateway's role unless it exists.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gw') THEN
        CREATE ROLE gw;
    END IF;
END
$$;

-- set_role --
-- Let it log in by what its password hashes to, and do nothing beyond its own database.
ALTER ROLE gw LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD %s;

-- own_database --
-- Tables, partitions and functions come and go with migrations and months.
ALTER DATABASE postgres OWNER TO gw;
ALTER SCHEMA public OWNER TO gw;

-- own_objects --
-- Hand over what the superuser made, when it was the superuser who served.
DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format('ALTER TABLE %s OWNER TO gw', oid::regclass) FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
          AND relowner <> 'gw'::regrole
    LOOP
        EXECUTE statement;
    END LOOP;
    -- After the tables, which take their own sequences with them.
    FOR statement IN
        SELECT format('ALTER SEQUENCE %s OWNER TO gw', oid::regclass) FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
          AND relowner <> 'gw'::regrole
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO gw', oid::regprocedure) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND proowner <> 'gw'::regrole
        UNION ALL
        -- Without those that belong to a table or to another type.
        SELECT format('ALTER TYPE %s OWNER TO gw', t.oid::regtype) FROM pg_type t
        LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.typnamespace = 'public'::regnamespace AND t.typowner <> 'gw'::regrole
          AND (t.typtype IN ('d', 'e', 'r') OR c.relkind = 'c')
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

-- read_rules --
-- Put the file of who may connect in force.
SELECT pg_reload_conf();

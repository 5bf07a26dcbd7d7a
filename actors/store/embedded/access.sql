-- make_role --
-- Create the gateway's role unless it exists.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gw') THEN
        CREATE ROLE gw;
    END IF;
END
$$;

-- set_role --
-- Let the role log in with a password, without rights beyond its own database.
ALTER ROLE gw LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD %s;

-- own_database --
-- Make it the owner, because migrations and months create and drop tables, partitions and functions.
ALTER DATABASE postgres OWNER TO gw;
ALTER SCHEMA public OWNER TO gw;

-- own_objects --
-- Transfer the objects that the superuser created while it served.
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
    -- After the tables, whose own sequences are transferred with them.
    FOR statement IN
        SELECT format('ALTER SEQUENCE %s OWNER TO gw', oid::regclass) FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'S'
          AND relowner <> 'gw'::regrole
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO gw', oid::regprocedure) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND proowner <> 'gw'::regrole
        UNION ALL
        -- Without types of tables and element types.
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
-- Load the rules of access.
SELECT pg_reload_conf();

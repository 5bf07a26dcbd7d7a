-- What the runner of migrations itself needs (migrations.py); the schema is in migrations/.

-- lock --
-- Let one process migrate at a time; held until the transaction ends.
SELECT pg_advisory_xact_lock(%s)

-- make_table --
-- The list of what has been applied to this database.
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)

-- has_table --
-- Whether anything was ever applied to this database.
SELECT to_regclass('schema_migrations') IS NOT NULL

-- applied --
-- What has been applied, in order.
SELECT version, name, checksum FROM schema_migrations ORDER BY version

-- record --
-- Note one migration as applied, in its own transaction.
INSERT INTO schema_migrations (version, name, checksum) VALUES (%s, %s, %s)

"""A PostgreSQL that answers and refuses statements for its own state, each way under its name.

`REFUSALS[how](data_dir, database_url)` is a context, in which the server of `data_dir` refuses what
the gateway asks of the database; it is healed at the end.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from actors.store.embedded.access import ROLE
from loadtests.rig.postgres import superuser
from loadtests.rig.transactions import transaction

# What every settlement and every hold is written into.
FILLED = ("entries", "holds", "call_logs")
# As PostgreSQL reports it.
FULL = """
CREATE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE disk_full USING MESSAGE = 'could not extend file "base/5/16384": No space left on device';
END $$
"""


@contextmanager
def read_only(data_dir: Path, _database_url: str) -> Iterator[None]:
    """Every transaction only reads, also those of open sessions (25006): a demoted primary."""
    with closing(superuser(data_dir)) as admin, admin.cursor() as cursor:
        cursor.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        cursor.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            cursor.execute("ALTER SYSTEM RESET default_transaction_read_only")
            cursor.execute("SELECT pg_reload_conf()")


@contextmanager
def rights_revoked(_data_dir: Path, database_url: str) -> Iterator[None]:
    """The gateway's role has no right to any table (42501)."""
    with transaction(database_url) as cursor:
        cursor.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {ROLE}")
    try:
        yield
    finally:
        with transaction(database_url) as cursor:
            cursor.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {ROLE}")


@contextmanager
def without_function(database_url: str, name: str) -> Iterator[None]:
    """A function has another name (42883)."""
    with transaction(database_url) as cursor:
        cursor.execute(f"ALTER FUNCTION {name} RENAME TO {name}_away")
    try:
        yield
    finally:
        with transaction(database_url) as cursor:
            cursor.execute(f"ALTER FUNCTION {name}_away RENAME TO {name}")


def function_missing(_data_dir: Path, database_url: str) -> AbstractContextManager[None]:
    """The function that moves money is not there."""
    return without_function(database_url, "ledger_batch")


@contextmanager
def disk_full(_data_dir: Path, database_url: str) -> Iterator[None]:
    """The ledger's tables do not grow any more (53100); what is there is read and changed."""
    with transaction(database_url) as cursor:
        cursor.execute(FULL)
        for table in FILLED:
            event = f"BEFORE INSERT ON {table}"
            cursor.execute(f"CREATE TRIGGER disk_is_full {event} EXECUTE FUNCTION disk_is_full()")
    try:
        yield
    finally:
        with transaction(database_url) as cursor:
            cursor.execute("DROP FUNCTION disk_is_full CASCADE")


REFUSALS: Mapping[str, Callable[[Path, str], AbstractContextManager[None]]] = {
    "read-only": read_only,
    "rights-revoked": rights_revoked,
    "function-missing": function_missing,
    "disk-full": disk_full,
}

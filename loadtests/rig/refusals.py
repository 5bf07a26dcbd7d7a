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
def _changed(database_url: str, change: str, back: str) -> Iterator[None]:
    """The database after one statement, until another one takes it back."""
    with transaction(database_url) as cursor:
        cursor.execute(change)
    try:
        yield
    finally:
        with transaction(database_url) as cursor:
            cursor.execute(back)


def rights_revoked(_data_dir: Path, database_url: str) -> AbstractContextManager[None]:
    """The gateway's role has no right to any table (42501)."""
    tables = "ALL ON ALL TABLES IN SCHEMA public"
    return _changed(database_url, f"REVOKE {tables} FROM {ROLE}", f"GRANT {tables} TO {ROLE}")


def without_function(database_url: str, name: str) -> AbstractContextManager[None]:
    """A function has another name (42883)."""
    rename = "ALTER FUNCTION {} RENAME TO {}".format
    return _changed(database_url, rename(name, f"{name}_away"), rename(f"{name}_away", name))


def function_missing(_data_dir: Path, database_url: str) -> AbstractContextManager[None]:
    """The function that moves money is not there."""
    return without_function(database_url, "ledger_batch")


def disk_full(_data_dir: Path, database_url: str) -> AbstractContextManager[None]:
    """The ledger's tables do not grow any more (53100); what is there is read and changed."""
    trigger = "CREATE TRIGGER disk_is_full BEFORE INSERT ON {} EXECUTE FUNCTION disk_is_full()"
    change = ";".join([FULL, *map(trigger.format, FILLED)])
    return _changed(database_url, change, "DROP FUNCTION disk_is_full CASCADE")


REFUSALS: Mapping[str, Callable[[Path, str], AbstractContextManager[None]]] = {
    "read-only": read_only,
    "rights-revoked": rights_revoked,
    "function-missing": function_missing,
    "disk-full": disk_full,
}

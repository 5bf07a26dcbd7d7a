"""The database of every release goes on under this program, with all that was in it."""

from pathlib import Path

import pytest

from actors.store.database import Database
from actors.store.schema import migrate
from loadtests.rig.deployment import deployment
from loadtests.rig.waiting import until
from tests.acceptance.every_family import SETTINGS
from tests.releases.databases import CUT_CALLS, DUMPS, restore
from tests.support.aio import run

pytestmark = pytest.mark.long

# Tables that have rows for a moment, where a month has no table, of days and months that are over.
EMPTY = {
    *("call_logs_default", "entries_default"),
    *("events_written", "kb_changes", "kb_unclean"),
    *("call_log_attributed_built", "call_log_attributed_spans", "call_log_dropped"),
}
TABLES = """SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
    AND relkind IN ('r', 'p') ORDER BY relname"""


async def counted(database: Database) -> dict[str, int]:
    """How many rows each table has."""
    names = [name for (name,) in await database.fetch_all(TABLES)]
    found = {}
    for name in names:
        ((found[name],),) = await database.fetch_all(f'SELECT count(*) FROM "{name}"')
    return found


async def upgrade(url: str, file: Path) -> None:
    """Restore the file, bring it to the present schema, and see that nothing is lost."""
    restore(file, url)
    async with Database(url) as database:
        before = await counted(database)
        await migrate(database)
        after = await counted(database)
        kept = {name: n for name, n in before.items() if not name.startswith("schema_")}
        assert {name: after.get(name) for name in kept} == kept


async def kinds_without_rows(url: str, file: Path) -> set[str]:
    restore(file, url)
    async with Database(url) as database:
        found = await counted(database)
    return {name for name, n in found.items() if n == 0}


def test_database_of_the_last_release_has_rows_of_every_kind(empty_url: str) -> None:
    without = run(kinds_without_rows(empty_url, DUMPS[-1]))
    assert {name for name in without if "_20" not in name} <= EMPTY


@pytest.mark.parametrize("file", DUMPS, ids=lambda file: file.name)
def test_database_of_a_release_goes_on_with_all_that_was_in_it(
    empty_url: str, file: Path, tmp_path: Path
) -> None:
    run(upgrade(empty_url, file))
    with deployment(empty_url, tmp_path, is_funded=False, **SETTINGS) as h:
        # Its processes were killed amid a stream, which is paid, and a film, which goes on.
        until(lambda: not h.query(CUT_CALLS), what="the end of the dump's stream")
        assert h.tenant().client.chat().status == 200

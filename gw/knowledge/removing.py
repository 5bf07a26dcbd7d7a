"""The end of a base, or of one page of it."""

from __future__ import annotations

from actors.store.database import Database
from gw.knowledge.bases import SQL, Base, UnknownBase
from gw.knowledge.importing import (
    ImportTarget,
    base_key,
    drop_unused_sources,
    remove_pages,
    settle_pages,
)
from gw.knowledge.reading import resolve
from gw.knowledge.sources import SourceStore


async def remove_base(database: Database, target: ImportTarget, sources: SourceStore) -> None:
    """Remove a base. Raises UnknownBase."""
    async with database.transaction() as session:
        await session.execute(SQL["lock_account"], (target.account_id,))
        row = await session.fetch_one(SQL["find_base"], base_key(target))
        if row is None:
            raise UnknownBase(target.kb_id)
        await session.execute(SQL["remove_base"], {"base": row[0]})
    await drop_unused_sources(database, sources, target.account_id)


async def remove_page(
    database: Database, target: ImportTarget, name: str, sources: SourceStore
) -> str | None:
    """Remove one page by its id or alias and return its id; None: there is none.

    Raises UnknownBase.
    """
    async with database.transaction() as session:
        await session.execute(SQL["lock_account"], (target.account_id,))
        row = await session.fetch_one(SQL["find_base"], base_key(target))
        if row is None:
            raise UnknownBase(target.kb_id)
        base = Base(row[0], row[1], row[3], row[4])
        (page_no,) = await resolve(session, base, [name])
        if page_no is None:
            return None
        stored = await session.fetch_all(SQL["stored_pages"], (row[0],))
        (page_id,) = [one for one, no, *_ in stored if no == page_no]
        await remove_pages(session, row[0], [page_no])
        await settle_pages(session, row[0])
    await drop_unused_sources(database, sources, target.account_id)
    return str(page_id)

"""Removes a base or one of its pages, and sources without pages.

Sources are removed after the commit and independently of its success: the remaining ones are
removed by a later command, or by a process of `gw serve` every few minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from actors.clock import Clock
from actors.store.database import Database
from actors.store.errors import StoreError
from actors.store.session import Session
from gw.knowledge import importing
from gw.knowledge.bases import SQL, Base, UnknownBase
from gw.knowledge.reading import resolve
from gw.knowledge.sources import SourceStore
from metrics.logs import EventLog
from metrics.prometheus import Metrics

CLEANED_EVERY_SECONDS = 600.0

# A further step of a transaction, its last one.
Also = Callable[[Session], Awaitable[None]]


async def remove_base(
    database: Database, target: importing.ImportTarget, *, also: Also | None = None
) -> None:
    """Remove a base. Raises UnknownBase."""
    async with database.transaction() as session:
        await importing.begin_changing(session, target.account_id)
        row = await session.fetch_one(SQL["find_base"], importing.base_key(target))
        if row is None:
            raise UnknownBase(target.kb_id)
        stored = await session.fetch_all(SQL["stored_pages"], (row[0],))
        gone = [importing.Stored(no, slot, length) for _, no, _, slot, length in stored]
        await importing.until_none(session, "remove_postings", {"base": row[0]})
        await importing.remove_pages(session, row[0], gone, are_noted=False)
        await session.execute(SQL["remove_base"], {"base": row[0]})
        if also is not None:
            await also(session)


async def remove_page(
    database: Database, target: importing.ImportTarget, name: str, *, also: Also | None = None
) -> str | None:
    """Remove one page by its id or alias and return its id, or None if it is missing.

    Raises UnknownBase.
    """
    async with database.transaction() as session:
        await importing.begin_changing(session, target.account_id)
        row = await session.fetch_one(SQL["find_base"], importing.base_key(target))
        if row is None:
            raise UnknownBase(target.kb_id)
        base = Base(row[0], row[1], row[3], row[4])
        (page_no,) = await resolve(session, base, [name])
        if page_no is None:
            return None
        stored = await session.fetch_all(SQL["stored_pages"], (row[0],))
        ((page_id, gone),) = [
            (one, [importing.Stored(no, slot, length)])
            for one, no, _, slot, length in stored
            if no == page_no
        ]
        await importing.remove_pages(session, row[0], gone)
        await importing.settle_pages(session, row[0], gone)
        if also is not None:
            await also(session)
    return str(page_id)


async def clean_up(database: Database, sources: SourceStore, account_id: str) -> list[str]:
    """Remove the account's sources without pages, also those of a failed import.

    Returns a warning if that fails; `keep_clean` tries again.
    """
    try:
        async with database.transaction() as session:
            await session.execute(SQL["lock_account"], (account_id,))
            rows = await session.fetch_all(SQL["used_sources"], (account_id,))
            await asyncio.to_thread(sources.keep_only, account_id, {row[0] for row in rows})
            await session.execute(SQL["mark_clean"], (account_id,))
    except (OSError, StoreError) as error:
        return [f"sources that no page names are still stored, and will be removed later: {error}"]
    return []


async def keep_clean(
    database: Database, sources: SourceStore, clock: Clock, metrics: Metrics
) -> None:
    """Remove left-over sources every few minutes, until cancelled."""
    log = EventLog("gw.knowledge")
    while True:
        await clock.sleep(CLEANED_EVERY_SECONDS)
        left = 0
        try:
            for (account_id,) in await database.fetch_all(SQL["unclean"]):
                for warning in await clean_up(database, sources, account_id):
                    left += 1
                    log.warning("kb_sources_left", account=account_id, error=warning)
        except StoreError as error:
            log.warning("kb_clean_up_postponed", error=str(error))
        else:
            metrics.knowledge.sources_left(left)

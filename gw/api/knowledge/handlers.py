"""`GET /api/v1/ext/wiki/…`: knowledge bases, read and searched (reference 8.3).

Free at any balance, outside the account's limits, without rows in the call log. A base or page that
the user may not read is a 404, like a missing one.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from actors.store.session import Session
from gw.api.handler import ApiHandler
from gw.api.knowledge.bodies import base_entry, page_body
from gw.api.knowledge.query import ids, limit_of, offset_of, search_text, text
from gw.api.knowledge.services import WikiServices
from gw.error_bodies import dumps
from gw.errors import NOT_FOUND, GatewayError
from gw.knowledge import bases, reading
from gw.knowledge.reading import StoredPage
from gw.knowledge.search import found_body, search

BATCH_BODY_CHARACTERS = 4000
UNREADABLE = "There is no such knowledge base or page that this key may read."


def unreadable() -> GatewayError:
    """Return the same error for missing and for unreadable objects."""
    return GatewayError(NOT_FOUND, UNREADABLE)


class WikiHandler(ApiHandler):
    """One request to a knowledge base."""

    @property
    def wiki(self) -> WikiServices:
        return self.services.wiki

    @asynccontextmanager
    async def base(self) -> AsyncIterator[tuple[Session, bases.Base]]:
        """Open one snapshot for all reads of the request, with the named base. Raises 404."""
        kb_id = text(self.request.query_arguments, "kb_id") or bases.PERSONAL
        principal = self.principal
        async with bases.one_state(self.wiki.database) as session:
            base = await bases.readable_base(
                session, kb_id, account_id=principal.account_id, user=principal.user
            )
            if base is None:
                raise unreadable()
            yield session, base

    async def page(
        self, session: Session, base: bases.Base, name: str, *, characters: int = reading.WHOLE
    ) -> StoredPage:
        """Return the page of an id or alias. Raises 404."""
        page = await reading.read_page(session, base, name, characters=characters)
        if page is None:
            raise unreadable()
        return page


class BasesHandler(WikiHandler):
    """The bases readable by the key's user."""

    async def on_get(self) -> None:
        principal = self.principal
        async with bases.one_state(self.wiki.database) as session:
            found = await bases.readable_bases(
                session, account_id=principal.account_id, user=principal.user
            )
        self.write(dumps({"kbs": [base_entry(base) for base in found]}))


class SearchHandler(WikiHandler):
    """Pages that contain the search words."""

    async def on_get(self) -> None:
        query = self.request.query_arguments
        text = search_text(query)
        offset, limit = offset_of(query), limit_of(query)
        async with self.base() as (session, base):
            began = time.perf_counter()
            found = await search(session, [base], text, offset=offset, limit=limit)
        self.services.metrics.knowledge.searched(
            surface="rest", result=found.match, seconds=time.perf_counter() - began
        )
        self.write(dumps(found_body(text, offset, found)))


class TagsHandler(WikiHandler):
    """The tags of a base."""

    async def on_get(self) -> None:
        async with self.base() as (session, base):
            found = await reading.tags(session, base)
        tags = [{"tag": tag, "count": count} for tag, count in found]
        self.write(dumps({"kb_id": base.kb_id, "tags": tags}))


class TagHandler(WikiHandler):
    """Every page with a tag."""

    async def on_get(self, tag: str) -> None:
        async with self.base() as (session, base):
            found = await reading.tagged(session, [base], tag)
        pages = [
            {"id": one.id, "title": one.title, "summary": one.summary, "tags": one.tags}
            for _, one in found
        ]
        body = {"kb_id": base.kb_id, "tag": tag, "total": len(pages), "pages": pages}
        self.write(dumps(body))


class PagesHandler(WikiHandler):
    """Several pages, their bodies truncated."""

    async def on_get(self) -> None:
        names = ids(self.request.query_arguments)
        async with self.base() as (session, base):
            found = await reading.resolve(session, base, names)
            nos = list(dict.fromkeys(no for no in found if no is not None))
            pages = await reading.read_pages(session, base, nos, characters=BATCH_BODY_CHARACTERS)
        shown = [{**page_body(pages[no]), "body_truncated": pages[no].is_truncated} for no in nos]
        self.write(dumps({"pages": shown}))


class PageHandler(WikiHandler):
    """One whole page."""

    async def on_get(self, name: str) -> None:
        async with self.base() as (session, base):
            page = await self.page(session, base, name)
        self.write(dumps(page_body(page)))


class BacklinksHandler(WikiHandler):
    """The pages that link to a page."""

    async def on_get(self, name: str) -> None:
        async with self.base() as (session, base):
            page = await self.page(session, base, name, characters=0)
            found = await reading.backlinks(session, page.no)
        shown = [{"id": one.id, "title": one.title, "summary": one.summary} for one in found]
        self.write(dumps({"id": page.id, "backlinks": shown}))


class PageSourceHandler(WikiHandler):
    """A temporary link to the source document of a page."""

    async def on_get(self, name: str) -> None:
        async with self.base() as (session, base):
            page = await self.page(session, base, name, characters=0)
        source = page.source
        if source is None:
            raise unreadable()
        now = self.services.clock.now()
        self.write(dumps(await self.wiki.linked(source, base_url=self.base_url(), now=now)))

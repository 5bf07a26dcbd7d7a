"""`GET /api/v1/ext/wiki/…`: knowledge bases, read and searched (spec: Knowledge base REST).

Free at any balance, outside the account's limits, without rows in the call log. A base or page that
the user may not read is a 404, like a missing one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any, BinaryIO

from actors.store.session import Session
from gw.api.handler import ApiHandler
from gw.api.logs.list_query import quoted, refuse
from gw.api.services import WikiServices
from gw.errors import NOT_FOUND, PERMISSION_DENIED, GatewayError, dumps
from gw.knowledge import reading
from gw.knowledge.bases import PERSONAL, Base, one_state, readable_base, readable_bases
from gw.knowledge.reading import StoredPage
from gw.knowledge.search import found_body, search
from gw.knowledge.sources import Sources, disposition

# The query of a request to a knowledge base: unchanged texts, integers, ids.

QUERY_CHARACTERS_MAX = 500
LIMIT_DEFAULT, LIMIT_MAX = 20, 50
# Above the pages of any base; with a window, within PostgreSQL's integers.
OFFSET_MAX = 10**9
IDS_MAX = 25

Query = Mapping[str, Sequence[bytes]]


def text(query: Query, name: str) -> str:
    """Return the one value of a parameter, unchanged; empty if absent. Raises 400."""
    values = list(dict.fromkeys(query.get(name, ())))
    if len(values) > 1:
        raise refuse(name, "is given more than once.")
    try:
        return values[0].decode() if values else ""
    except UnicodeDecodeError:
        raise refuse(name, "is not UTF-8.") from None


def search_text(query: Query) -> str:
    """Return the search text. Raises 400."""
    found = text(query, "q")
    if not found.strip():
        raise refuse("q", "is required: the words to search for.")
    if len(found) > QUERY_CHARACTERS_MAX:
        raise refuse("q", f"has more than {QUERY_CHARACTERS_MAX} characters.")
    return found


def limit_of(query: Query) -> int:
    """Return the number of hits, at most LIMIT_MAX. Raises 400."""
    return min(_whole(query, "limit", least=1, default=LIMIT_DEFAULT), LIMIT_MAX)


def offset_of(query: Query) -> int:
    """Return the number of hits to skip. Raises 400."""
    return min(_whole(query, "offset", least=0, default=0), OFFSET_MAX)


def ids(query: Query) -> list[str]:
    """Return the first IDS_MAX distinct ids of a list. Raises 400 if it is empty."""
    found = dict.fromkeys(one.strip() for one in text(query, "ids").split(","))
    found.pop("", None)
    if not found:
        raise refuse("ids", "is required: the ids of pages, separated by commas.")
    return list(found)[:IDS_MAX]


def _whole(query: Query, name: str, *, least: int, default: int) -> int:
    value = text(query, name).strip()
    if not value:
        return default
    digits = value.removeprefix("+").lstrip("0") or "0"
    # A number of more digits is above every bound, and is not parsed.
    number = -1
    if value != "+" and digits.isascii() and digits.isdigit():
        number = int(digits) if len(digits) <= 10 else OFFSET_MAX
    if number < least:
        raise refuse(name, f"is a whole number from {least} on, not {quoted(value)}.")
    return number


# Bases, pages and hits as JSON values (spec: Knowledge-base page).


def base_entry(base: Base) -> dict[str, Any]:
    """Return a base as an entry of the list."""
    return {"kb_id": base.kb_id, "name": base.name, "pages": base.pages}


def page_body(page: StoredPage) -> dict[str, Any]:
    """Return a page with every field."""
    source = page.source and {
        "r2_key": page.source.r2_key,
        "filename": page.source.filename,
        "locator": page.source.locator,
        "compiled_at": page.source.compiled_at,
        "model": page.source.model,
    }
    return {
        "id": page.id,
        "kb_id": page.base.kb_id,
        "title": page.title,
        "summary": page.summary,
        "tags": page.tags,
        "aliases": page.aliases,
        "links": page.links,
        "body": page.body,
        "confidence": page.confidence,
        "needs_review": page.needs_review,
        "source": source,
        "outgoing_links": [
            {"id": target, "resolved": is_resolved, "title": title}
            for target, is_resolved, title in page.outgoing_links
        ],
    }


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
    async def base(self) -> AsyncIterator[tuple[Session, Base]]:
        """Open one snapshot for all reads of the request, with the named base. Raises 404."""
        kb_id = text(self.request.query_arguments, "kb_id") or PERSONAL
        principal = self.principal
        async with one_state(self.wiki.database) as session:
            base = await readable_base(
                session, kb_id, account_id=principal.account_id, user=principal.user
            )
            if base is None:
                raise unreadable()
            yield session, base

    async def page(
        self, session: Session, base: Base, name: str, *, characters: int = reading.WHOLE
    ) -> StoredPage:
        """Return the page of an id or alias. Raises 404."""
        page = await reading.read_page(session, base, name, characters=characters)
        if page is None:
            raise unreadable()
        return page


class BasesHandler(WikiHandler):
    """The bases readable by the key's user."""

    route = "wiki_kbs"

    async def on_get(self) -> None:
        principal = self.principal
        async with one_state(self.wiki.database) as session:
            found = await readable_bases(
                session, account_id=principal.account_id, user=principal.user
            )
        self.write(dumps({"kbs": [base_entry(base) for base in found]}))


class SearchHandler(WikiHandler):
    """Pages that contain the search words."""

    route = "wiki_search"

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

    route = "wiki_tags"

    async def on_get(self) -> None:
        async with self.base() as (session, base):
            found = await reading.tags(session, base)
        tags = [{"tag": tag, "count": count} for tag, count in found]
        self.write(dumps({"kb_id": base.kb_id, "tags": tags}))


class TagHandler(WikiHandler):
    """Every page with a tag."""

    route = "wiki_tag"

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

    route = "wiki_pages"

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

    route = "wiki_page"

    async def on_get(self, name: str) -> None:
        async with self.base() as (session, base):
            page = await self.page(session, base, name)
        self.write(dumps(page_body(page)))


class BacklinksHandler(WikiHandler):
    """The pages that link to a page."""

    route = "wiki_backlinks"

    async def on_get(self, name: str) -> None:
        async with self.base() as (session, base):
            page = await self.page(session, base, name, characters=0)
            found = await reading.backlinks(session, page.no)
        shown = [{"id": one.id, "title": one.title, "summary": one.summary} for one in found]
        self.write(dumps({"id": page.id, "backlinks": shown}))


class PageSourceHandler(WikiHandler):
    """A temporary link to the source document of a page."""

    route = "wiki_source"

    async def on_get(self, name: str) -> None:
        async with self.base() as (session, base):
            page = await self.page(session, base, name, characters=0)
        source = page.source
        if source is None:
            raise unreadable()
        now = self.services.clock.now()
        self.write(dumps(await self.wiki.linked(source, base_url=self.base_url(), now=now)))


# Source documents by signed links: no key, the exact bytes, until the link expires.

# The part of a file in memory while a client is slow.
CHUNK_BYTES = 256 * 1024


class DownloadHandler(ApiHandler):
    """One source document. Its existence is visible only with a signed link."""

    route = "wiki_download"
    auth = "none"

    @property
    def wiki(self) -> WikiServices:
        return self.services.wiki

    async def on_get(self, name: str) -> None:
        await self._send(name, with_body=True)

    async def on_head(self, name: str) -> None:
        await self._send(name, with_body=False)

    async def _send(self, name: str, *, with_body: bool) -> None:
        count = self.services.metrics.knowledge.link_followed
        if refused := self._refusal(name):
            count(refused)
            message = "This link has expired, or was not made by this gateway."
            raise GatewayError(PERMISSION_DENIED, message)
        with ExitStack() as stack:
            stack.enter_context(self.services.sources.reading(name))
            try:
                file = await asyncio.to_thread(self._open, name)
            except FileNotFoundError:
                count("missing")
                raise unreadable() from None
            stack.callback(file.close)
            count("served")
            self._describe(name, file)
            while with_body and (chunk := await asyncio.to_thread(file.read, CHUNK_BYTES)):
                self.write(chunk)
                await self.flush()

    def _open(self, name: str) -> BinaryIO:
        """Open the file of a source. Raises FileNotFoundError; buckets serve their own."""
        sources = self.wiki.sources
        if not isinstance(sources, Sources):
            raise FileNotFoundError(name)
        return sources.path(name).open("rb")

    def _refusal(self, name: str) -> str:
        """Return the reason to refuse a link, or an empty text."""
        query = self.request.query_arguments
        expires, signature = text(query, "expires"), text(query, "signature")
        if not self.wiki.links.is_genuine(name, expires, signature):
            return "invalid"
        return "expired" if self.services.clock.now() >= int(expires) else ""

    def _describe(self, name: str, file: BinaryIO) -> None:
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Length", str(file.seek(0, 2)))
        file.seek(0)
        self.set_header("Content-Disposition", disposition(name))
        self.set_header("X-Content-Type-Options", "nosniff")

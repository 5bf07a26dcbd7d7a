"""The six tools at work: over every knowledge base that the key's user may read.

Each call reads one state of the bases. An id in what it gives leads back to the same page, whatever
the bases before it hold (`gw/knowledge/locating.py`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from actors.store.session import Session
from gw.api.mcp import arguments as read
from gw.api.mcp.arguments import Arguments
from gw.api.mcp.schemas import BATCH_BODY_CHARACTERS, BODY_CHARACTERS, SEARCH_DEFAULT, TOOLS
from gw.api.wiki.rendering import found_body, page_body
from gw.api.wiki.services import WikiServices
from gw.keys.principal import Principal
from gw.knowledge import reading
from gw.knowledge.bases import Base, one_state, readable_bases
from gw.knowledge.locating import Located, locate, name_pages
from gw.knowledge.reading import StoredPage
from gw.knowledge.search import search
from gw.mcp.tools import Tool, ToolError
from metrics.knowledge import KnowledgeMetrics

UNREADABLE = "There is no page of this id that this key may read. Find ids with search_wiki."
SOURCELESS = "This page names no source document. Read the page itself with read_page."


@dataclass(frozen=True, slots=True)
class Reach:
    """What one call may read: a session, and the bases in the order of `/kbs`."""

    session: Session
    bases: Sequence[Base]

    async def named(self, pages: Sequence[tuple[Base, str]]) -> list[str]:
        """What pages are called."""
        return await name_pages(self.session, self.bases, pages)

    async def located(self, name: str) -> Located:
        """Where a page is. Raises ToolError."""
        (found,) = await locate(self.session, self.bases, [name])
        if found is None:
            raise ToolError(UNREADABLE)
        return found

    async def page(self, located: Located, *, characters: int) -> StoredPage:
        """A page, its body cut to so many characters."""
        nos = [located.page_no]
        pages = await reading.read_pages(self.session, located.base, nos, characters=characters)
        return pages[located.page_no]


class KnowledgeTools:
    """The tools for one key; `base_url` is how its client reaches the gateway."""

    def __init__(
        self,
        wiki: WikiServices,
        principal: Principal,
        metrics: KnowledgeMetrics,
        *,
        base_url: str,
        now: float,
    ) -> None:
        self._wiki = wiki
        self._principal = principal
        self._metrics = metrics
        self._base_url = base_url
        self._now = now

    @property
    def tools(self) -> Mapping[str, Tool]:
        return TOOLS

    async def call(self, name: str, arguments: Arguments) -> dict[str, Any]:
        """What a tool finds. Raises ToolError, or StoreUnavailable."""
        return await _CALLS[name](self, arguments)

    async def search_wiki(self, arguments: Arguments) -> dict[str, Any]:
        text = read.search_text(arguments)
        limit, offset = read.limit(arguments, SEARCH_DEFAULT), read.offset(arguments)
        async with self._reach() as reach:
            began = time.perf_counter()
            found = await search(reach.session, reach.bases, text, offset=offset, limit=limit)
            seconds = time.perf_counter() - began
            names = await reach.named([(hit.base, hit.id) for hit in found.hits])
        self._metrics.searched(surface="mcp", result=found.match, seconds=seconds)
        body = found_body(text, offset, found)
        body["results"] = [
            {**entry, "id": name, "kb_id": hit.base.kb_id}
            for entry, name, hit in zip(body["results"], names, found.hits, strict=True)
        ]
        return body

    async def read_page(self, arguments: Arguments) -> dict[str, Any]:
        name = read.text(arguments, "id")
        async with self._reach() as reach:
            located = await reach.located(name)
            page = await reach.page(located, characters=BODY_CHARACTERS)
            (shown,) = await _shown(reach, [page])
        return shown

    async def read_pages(self, arguments: Arguments) -> dict[str, Any]:
        ids = read.ids(arguments)
        async with self._reach() as reach:
            located = await locate(reach.session, reach.bases, ids)
            pages: dict[int, StoredPage] = {}
            for base in reach.bases:
                nos = [one.page_no for one in located if one is not None and one.base is base]
                if nos:
                    pages |= await reading.read_pages(
                        reach.session, base, nos, characters=BATCH_BODY_CHARACTERS
                    )
            wanted = dict.fromkeys(one.page_no for one in located if one is not None)
            shown = await _shown(reach, [pages[no] for no in wanted])
        missing = [name for name, one in zip(ids, located, strict=True) if one is None]
        return {"pages": shown, "missing": missing}

    async def list_by_tag(self, arguments: Arguments) -> dict[str, Any]:
        tag = read.text(arguments, "tag")
        async with self._reach() as reach:
            found = await reading.tagged(reach.session, reach.bases, tag)
            names = await reach.named([(base, one.id) for base, one in found])
        pages = [
            {
                "id": name,
                "kb_id": base.kb_id,
                "title": one.title,
                "summary": one.summary,
                "tags": one.tags,
            }
            for name, (base, one) in zip(names, found, strict=True)
        ]
        return {"tag": tag, "total": len(pages), "pages": pages}

    async def backlinks(self, arguments: Arguments) -> dict[str, Any]:
        name = read.text(arguments, "id")
        async with self._reach() as reach:
            located = await reach.located(name)
            base = located.base
            page = await reach.page(located, characters=0)
            found = await reading.backlinks(reach.session, page.no)
            own, *names = await reach.named([(base, page.id), *((base, one.id) for one in found)])
        entries = [
            {"id": name, "kb_id": base.kb_id, "title": one.title, "summary": one.summary}
            for name, one in zip(names, found, strict=True)
        ]
        return {"id": own, "kb_id": base.kb_id, "backlinks": entries}

    async def get_source(self, arguments: Arguments) -> dict[str, Any]:
        name = read.text(arguments, "id")
        async with self._reach() as reach:
            page = await reach.page(await reach.located(name), characters=0)
        if page.source is None:
            raise ToolError(SOURCELESS)
        return await self._wiki.linked(page.source, base_url=self._base_url, now=self._now)

    @asynccontextmanager
    async def _reach(self) -> AsyncIterator[Reach]:
        principal = self._principal
        async with one_state(self._wiki.database) as session:
            yield Reach(
                session,
                await readable_bases(session, account_id=principal.account_id, user=principal.user),
            )


async def _shown(reach: Reach, pages: Sequence[StoredPage]) -> list[dict[str, Any]]:
    """Pages with every field, whatever is an id of theirs in a form that leads back."""
    linked = [
        (page.base, target)
        for page in pages
        for target, is_resolved, _ in page.outgoing_links
        if is_resolved
    ]
    names = iter(await reach.named([*((page.base, page.id) for page in pages), *linked]))
    shown = [{**page_body(page), "id": next(names)} for page in pages]
    for body, page in zip(shown, pages, strict=True):
        body["body_truncated"] = page.is_truncated
        body["outgoing_links"] = [
            {**link, "id": next(names)} if link["resolved"] else link
            for link in body["outgoing_links"]
        ]
    return shown


_CALLS: Mapping[str, Callable[[KnowledgeTools, Arguments], Awaitable[dict[str, Any]]]] = {
    "search_wiki": KnowledgeTools.search_wiki,
    "read_page": KnowledgeTools.read_page,
    "read_pages": KnowledgeTools.read_pages,
    "list_by_tag": KnowledgeTools.list_by_tag,
    "backlinks": KnowledgeTools.backlinks,
    "get_source": KnowledgeTools.get_source,
}
assert _CALLS.keys() == TOOLS.keys()

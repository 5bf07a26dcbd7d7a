"""The six tools, over every knowledge base readable by the key's user.

Each call reads one snapshot of the bases. An id in a result leads back to the same page, whatever
the bases before it contain (`gw/knowledge/locations.py`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from actors.store.session import Session
from gw.api.knowledge.bodies import page_body
from gw.api.knowledge.services import WikiServices
from gw.api.mcp.arguments import Arguments, ids_of, limit_of, offset_of, search_text, text
from gw.api.mcp.tools import BATCH_BODY_CHARACTERS, BODY_CHARACTERS, SEARCH_DEFAULT, TOOLS
from gw.keys.principal import Principal
from gw.knowledge import reading
from gw.knowledge.bases import Base, one_state, readable_bases
from gw.knowledge.locations import PageLocation, locate, name_pages
from gw.knowledge.reading import StoredPage
from gw.knowledge.search import found_body, search
from gw.mcp.tools import Tool, ToolError
from metrics.groups.knowledge import KnowledgeMetrics

UNREADABLE = "There is no page of this id that this key may read. Find ids with search_wiki."
SOURCELESS = "This page names no source document. Read the page itself with read_page."


@dataclass(frozen=True, slots=True)
class ReadScope:
    """The data readable by one call: a session, and the bases in the order of `/kbs`."""

    session: Session
    bases: Sequence[Base]

    async def named(self, pages: Sequence[tuple[Base, str]]) -> list[str]:
        """Return the ids of pages."""
        return await name_pages(self.session, self.bases, pages)

    async def located(self, name: str) -> PageLocation:
        """Return the location of a page. Raises ToolError."""
        (found,) = await locate(self.session, self.bases, [name])
        if found is None:
            raise ToolError(UNREADABLE)
        return found

    async def page(self, located: PageLocation, *, characters: int) -> StoredPage:
        """Return a page, its body truncated to a number of characters."""
        nos = [located.page_no]
        pages = await reading.read_pages(self.session, located.base, nos, characters=characters)
        return pages[located.page_no]


class KnowledgeTools:
    """The tools for one key; `base_url` is its client's URL of the gateway."""

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
        """Return the result of a tool. Raises ToolError, or StoreUnavailable."""
        return await TOOL_METHODS[name](self, arguments)

    async def search_wiki(self, arguments: Arguments) -> dict[str, Any]:
        text = search_text(arguments)
        limit, offset = limit_of(arguments, SEARCH_DEFAULT), offset_of(arguments)
        async with self._scope() as scope:
            began = time.perf_counter()
            found = await search(scope.session, scope.bases, text, offset=offset, limit=limit)
            seconds = time.perf_counter() - began
            names = await scope.named([(hit.base, hit.id) for hit in found.hits])
        self._metrics.searched(surface="mcp", result=found.match, seconds=seconds)
        body = found_body(text, offset, found)
        results = [
            {**entry, "id": name, "kb_id": hit.base.kb_id}
            for entry, name, hit in zip(body["results"], names, found.hits, strict=True)
        ]
        return {**body, "results": results}

    async def read_page(self, arguments: Arguments) -> dict[str, Any]:
        name = text(arguments, "id")
        async with self._scope() as scope:
            located = await scope.located(name)
            page = await scope.page(located, characters=BODY_CHARACTERS)
            (shown,) = await _shown(scope, [page])
        return shown

    async def read_pages(self, arguments: Arguments) -> dict[str, Any]:
        ids = ids_of(arguments)
        async with self._scope() as scope:
            located = await locate(scope.session, scope.bases, ids)
            pages: dict[int, StoredPage] = {}
            for base in scope.bases:
                nos = [one.page_no for one in located if one is not None and one.base is base]
                if nos:
                    pages |= await reading.read_pages(
                        scope.session, base, nos, characters=BATCH_BODY_CHARACTERS
                    )
            wanted = dict.fromkeys(one.page_no for one in located if one is not None)
            shown = await _shown(scope, [pages[no] for no in wanted])
        missing = [name for name, one in zip(ids, located, strict=True) if one is None]
        return {"pages": shown, "missing": missing}

    async def list_by_tag(self, arguments: Arguments) -> dict[str, Any]:
        tag = text(arguments, "tag")
        async with self._scope() as scope:
            found = await reading.tagged(scope.session, scope.bases, tag)
            names = await scope.named([(base, one.id) for base, one in found])
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
        name = text(arguments, "id")
        async with self._scope() as scope:
            located = await scope.located(name)
            base = located.base
            page = await scope.page(located, characters=0)
            found = await reading.backlinks(scope.session, page.no)
            own, *names = await scope.named([(base, page.id), *((base, one.id) for one in found)])
        entries = [
            {"id": name, "kb_id": base.kb_id, "title": one.title, "summary": one.summary}
            for name, one in zip(names, found, strict=True)
        ]
        return {"id": own, "kb_id": base.kb_id, "backlinks": entries}

    async def get_source(self, arguments: Arguments) -> dict[str, Any]:
        name = text(arguments, "id")
        async with self._scope() as scope:
            page = await scope.page(await scope.located(name), characters=0)
        if page.source is None:
            raise ToolError(SOURCELESS)
        return await self._wiki.linked(page.source, base_url=self._base_url, now=self._now)

    @asynccontextmanager
    async def _scope(self) -> AsyncIterator[ReadScope]:
        principal = self._principal
        async with one_state(self._wiki.database) as session:
            yield ReadScope(
                session,
                await readable_bases(session, account_id=principal.account_id, user=principal.user),
            )


async def _shown(scope: ReadScope, pages: Sequence[StoredPage]) -> list[dict[str, Any]]:
    """Return pages with every field, their ids in a form that leads back."""
    linked = [
        (page.base, target)
        for page in pages
        for target, is_resolved, _ in page.outgoing_links
        if is_resolved
    ]
    names = iter(await scope.named([*((page.base, page.id) for page in pages), *linked]))
    shown: list[dict[str, Any]] = [{**page_body(page), "id": next(names)} for page in pages]
    for body, page in zip(shown, pages, strict=True):
        body["body_truncated"] = page.is_truncated
        body["outgoing_links"] = [
            {**link, "id": next(names)} if link["resolved"] else link
            for link in body["outgoing_links"]
        ]
    return shown


TOOL_METHODS: Mapping[str, Callable[[KnowledgeTools, Arguments], Awaitable[dict[str, Any]]]] = {
    "search_wiki": KnowledgeTools.search_wiki,
    "read_page": KnowledgeTools.read_page,
    "read_pages": KnowledgeTools.read_pages,
    "list_by_tag": KnowledgeTools.list_by_tag,
    "backlinks": KnowledgeTools.backlinks,
    "get_source": KnowledgeTools.get_source,
}

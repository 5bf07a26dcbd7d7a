"""`POST /mcp`: knowledge bases as tools of the Model Context Protocol (spec: Knowledge base MCP).

Free at any balance, outside the account's limits, without rows in the call log, like the REST
endpoints beside it. Refusals before the message is parsed have the first error shape; everything
else is JSON-RPC (`gw/mcp.py`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from actors.store.session import Session
from gw.api.failures import explain
from gw.api.handler import ApiHandler
from gw.api.services import WikiServices
from gw.api.wiki import IDS_MAX, LIMIT_MAX, OFFSET_MAX, QUERY_CHARACTERS_MAX, page_body
from gw.errors import too_large
from gw.keys.principal import Principal
from gw.knowledge import reading
from gw.knowledge.bases import Base, one_state, readable_bases
from gw.knowledge.locations import PageLocation, locate, name_pages
from gw.knowledge.reading import StoredPage
from gw.knowledge.search import found_body, search
from gw.mcp import (
    INTERNAL_ERROR,
    Exchange,
    HandledMessage,
    Head,
    RpcError,
    Tool,
    ToolError,
    error_body,
)
from metrics.groups.knowledge import KnowledgeMetrics
from metrics.logs import EventLog

# The arguments of a tool call. Errors are sentences that a model can act on.

Arguments = Mapping[str, Any]


def text(arguments: Arguments, name: str) -> str:
    """Return a text that is not blank, unchanged. Raises ToolError."""
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ToolError(f"`{name}` is required: a text that is not blank.")
    return value


def search_text(arguments: Arguments) -> str:
    """Return the search text. Raises ToolError."""
    value = text(arguments, "q")
    if len(value) > QUERY_CHARACTERS_MAX:
        raise ToolError(f"`q` has more than {QUERY_CHARACTERS_MAX} characters: search for less.")
    return value


def limit_of(arguments: Arguments, default: int) -> int:
    """Return the number of entries, at most LIMIT_MAX. Raises ToolError."""
    return min(_whole(arguments, "limit", least=1, default=default), LIMIT_MAX)


def offset_of(arguments: Arguments) -> int:
    """Return the number of entries to skip. Raises ToolError."""
    return min(_whole(arguments, "offset", least=0, default=0), OFFSET_MAX)


def ids_of(arguments: Arguments) -> list[str]:
    """Return the first IDS_MAX distinct ids of a list. Raises ToolError if it is empty."""
    value = arguments.get("ids")
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ToolError("`ids` is required: a list of texts, each the id of a page.")
    found = dict.fromkeys(one.strip() for one in value)
    found.pop("", None)
    if not found:
        raise ToolError("`ids` has no id: give at least one.")
    return list(found)[:IDS_MAX]


def _whole(arguments: Arguments, name: str, *, least: int, default: int) -> int:
    value = arguments.get(name, default)
    # JSON does not distinguish 5.0 from 5.
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or value < least:
        raise ToolError(f"`{name}` is a whole number from {least} on.")
    return int(value)


# The six tools as clients and their models see them (spec: Knowledge base MCP).

SEARCH_DEFAULT: Final = 10
BODY_CHARACTERS: Final = 8000
BATCH_BODY_CHARACTERS: Final = 1200

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer"}
_FLAG: Final = {"type": "boolean"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}


def _object(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object whose members are all required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(**properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": _object(**properties)}


def _input(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [required]}


_ID_OF_PAGE: Final = {
    "type": "string",
    "description": "Id or alias of a page, as any result gives it; KB_ID/ID names one base's.",
}
_ENTRY: Final = {"id": _TEXT, "kb_id": _TEXT, "title": _TEXT, "summary": _TEXT}
_PAGE: Final = {
    **_ENTRY,
    "tags": _TEXTS,
    "aliases": _TEXTS,
    "links": _TEXTS,
    "body": _TEXT,
    "confidence": _TEXT,
    "needs_review": _FLAG,
    "source": {
        "type": ["object", "null"],
        "properties": {
            "r2_key": _TEXT,
            "filename": _TEXT,
            "locator": _TEXT_OR_NULL,
            "compiled_at": _TEXT_OR_NULL,
            "model": _TEXT_OR_NULL,
        },
    },
    "outgoing_links": _list(id=_TEXT, resolved=_FLAG, title=_TEXT_OR_NULL),
    "body_truncated": _FLAG,
}

_TOOLS: Final = (
    Tool(
        name="search_wiki",
        title="Search the knowledge bases",
        description=(
            "Find pages by words in any language. Pages that have every word come first; words in"
            ' "quotation marks" must stand next to each other. Gives entries with a snippet, not'
            " bodies: read those with read_page."
        ),
        input_schema=_input(
            "q",
            q={
                "type": "string",
                "description": "The words to look for.",
                "minLength": 1,
                "maxLength": QUERY_CHARACTERS_MAX,
            },
            limit={
                "type": "integer",
                "description": f"How many entries to give; more than {LIMIT_MAX} is {LIMIT_MAX}.",
                "minimum": 1,
                "default": SEARCH_DEFAULT,
            },
            offset={
                "type": "integer",
                "description": "How many of the best entries to leave out, for the next page.",
                "minimum": 0,
                "default": 0,
            },
        ),
        output_schema=_object(
            query=_TEXT,
            total_hits=_COUNT,
            offset=_COUNT,
            returned=_COUNT,
            has_more=_FLAG,
            results=_list(
                **_ENTRY,
                snippet=_TEXT,
                tags=_TEXTS,
                confidence=_TEXT,
                needs_review=_FLAG,
                score={"type": "number"},
            ),
        ),
    ),
    Tool(
        name="read_page",
        title="Read a page",
        description=(
            "Read one page with its tags, its links and where it comes from. Its body is cut after"
            f" {BODY_CHARACTERS} characters; `body_truncated` says so."
        ),
        input_schema=_input("id", id=_ID_OF_PAGE),
        output_schema=_object(**_PAGE),
    ),
    Tool(
        name="read_pages",
        title="Read the beginnings of several pages",
        description=(
            f"Read up to {IDS_MAX} pages at once, each body cut after {BATCH_BODY_CHARACTERS}"
            " characters. Ids that lead nowhere are in `missing`."
        ),
        input_schema=_input(
            "ids",
            ids={
                "type": "array",
                "items": _TEXT,
                "description": "Ids or aliases of pages, as in read_page.",
                "minItems": 1,
                "maxItems": IDS_MAX,
            },
        ),
        output_schema=_object(pages=_list(**_PAGE), missing=_TEXTS),
    ),
    Tool(
        name="list_by_tag",
        title="List the pages of a tag",
        description="List every page that has a tag, which must be spelled exactly.",
        input_schema=_input("tag", tag={**_TEXT, "description": "The tag.", "minLength": 1}),
        output_schema=_object(tag=_TEXT, total=_COUNT, pages=_list(**_ENTRY, tags=_TEXTS)),
    ),
    Tool(
        name="backlinks",
        title="List the pages that link to a page",
        description="List the pages of the same knowledge base that link to a page.",
        input_schema=_input("id", id=_ID_OF_PAGE),
        output_schema=_object(id=_TEXT, kb_id=_TEXT, backlinks=_list(**_ENTRY)),
    ),
    Tool(
        name="get_source",
        title="Get the source document of a page",
        description=(
            "Get a link to the document that a page was made of. It needs no key and works for"
            " `url_ttl_secs` seconds; `locator` says where in the document to look."
        ),
        input_schema=_input("id", id=_ID_OF_PAGE),
        output_schema=_object(
            r2_key=_TEXT, filename=_TEXT, locator=_TEXT_OR_NULL, url=_TEXT, url_ttl_secs=_COUNT
        ),
    ),
)
TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in _TOOLS}


# The implementation of the six tools, over every knowledge base readable by the key's user.
#
# Each call reads one snapshot of the bases. An id in a result leads back to the same page, whatever
# the bases before it contain (`gw/knowledge/reading.py`).

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
        return await _CALLS[name](self, arguments)

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
        body["results"] = [
            {**entry, "id": name, "kb_id": hit.base.kb_id}
            for entry, name, hit in zip(body["results"], names, found.hits, strict=True)
        ]
        return body

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


# Twice a full batch of the longest sensible requests; more would only block the loop.
BODY_BYTES_MAX = 256 * 1024

_LOG = EventLog("gw.mcp")


class McpHandler(ApiHandler):
    """One POST of an MCP client."""

    route = "mcp"
    auth = "two_headers"
    challenge = 'Bearer realm="gateway"'

    _exchange: Exchange | None = None

    async def on_post(self) -> None:
        body = self.request.body
        if len(body) > BODY_BYTES_MAX:
            raise too_large(BODY_BYTES_MAX)
        exchange = self._exchange = Exchange(self._fields(), self._tools())
        reply = await exchange.reply(body)
        self._count(exchange)
        self.set_status(reply.http_status)
        if reply.body:
            self.write(reply.body)
        else:
            self.clear_header("Content-Type")

    def _fields(self) -> Head:
        get = self.request.headers.get
        return Head(
            content_type=get("Content-Type"),
            accept=get("Accept"),
            version=get("Mcp-Protocol-Version"),
            method=get("Mcp-Method"),
            name=get("Mcp-Name"),
        )

    def _tools(self) -> KnowledgeTools:
        services = self.services
        return KnowledgeTools(
            services.wiki,
            self.principal,
            services.metrics.knowledge,
            base_url=self.base_url(),
            now=services.clock.now(),
        )

    def _count(self, exchange: Exchange) -> None:
        for served in exchange.served:
            self.services.metrics.mcp.served(
                method=served.method,
                tool=served.tool,
                outcome=served.outcome,
                seconds=served.seconds,
            )
            if served.code:
                self._tell_operator(served)

    def _tell_operator(self, served: HandledMessage) -> None:
        _LOG.info(
            "mcp.error",
            trace=self.call_id.hex,
            account=self.principal.account_id,
            key=self.principal.key_id,
            method=served.method,
            tool=served.tool,
            code=served.code,
        )

    def tell(self, error: BaseException) -> None:
        exchange = self._exchange
        if exchange is None:
            super().tell(error)
            self.services.metrics.mcp.refused()
            return
        failure = explain(error)
        exchange.failed(INTERNAL_ERROR)
        self._count(exchange)
        self.set_status(failure.http_status)
        for name, value in failure.headers.items():
            self.set_header(name, value)
        request_id = None if exchange.request is None else exchange.request.id
        body = error_body(request_id, RpcError(INTERNAL_ERROR, failure.message))
        self.set_header("Content-Length", len(body))
        self.write(body)

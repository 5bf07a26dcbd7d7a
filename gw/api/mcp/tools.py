"""The six tools as clients and their models see them (reference 8.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gw.api.knowledge.query import IDS_MAX, LIMIT_MAX, QUERY_CHARACTERS_MAX
from gw.mcp.tools import Tool

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

"""Knowledge bases and their tools, in the reference."""

from __future__ import annotations

from typing import Any

from gw import errors
from gw.api.knowledge import bodies, handlers, query
from gw.api.mcp.tools import TOOLS
from gw.api.reference.operation import (
    BYTES,
    Content,
    Operation,
    Response,
    answers,
    in_header,
    in_path,
    in_query,
    texts_of,
    whole,
)
from gw.knowledge.bases import PERSONAL
from gw.knowledge.search import FoundPages
from gw.mcp import json_rpc

TAG = "Knowledge bases"
_KB = in_query(
    "kb_id",
    "The knowledge base; without it the personal one.",
    {"type": "string", "default": PERSONAL},
)
_PAGE = in_path("id", "The page's id, or an alias.", "running")
_RAISED = (errors.INVALID_REQUEST, errors.NOT_FOUND)

SEARCH = (
    Operation(
        name="search_pages",
        tag=TAG,
        summary="Find pages by words.",
        description="Pages with every word, or where there is none, with any; words in quotation"
        " marks stand next to each other.",
        parameters=(
            in_query(
                "q",
                "The words.",
                {"type": "string", "minLength": 1, "maxLength": query.QUERY_CHARACTERS_MAX},
                required=True,
                example="balance",
            ),
            _KB,
            in_query(
                "limit",
                f"How many; more than {query.LIMIT_MAX} is {query.LIMIT_MAX}.",
                whole(1, default=query.LIMIT_DEFAULT),
                example=3,
            ),
            in_query("offset", "How many of the best are left out.", whole(0, default=0)),
        ),
        responses=answers(FoundPages, "The pages."),
        raises=_RAISED,
    ),
)
BASES = (
    Operation(
        name="list_bases",
        tag=TAG,
        summary="List the knowledge bases that the key may read.",
        responses=answers(bodies.BaseList, "The knowledge bases."),
    ),
)
TAGS = (
    Operation(
        name="list_tags",
        tag=TAG,
        summary="List the tags of a knowledge base.",
        parameters=(_KB,),
        responses=answers(bodies.TagList, "The tags."),
        raises=_RAISED,
    ),
)
TAGGED = (
    Operation(
        name="list_tagged_pages",
        tag=TAG,
        summary="List the pages of a tag.",
        parameters=(in_path("tag", "The tag, exactly.", "money"), _KB),
        responses=answers(bodies.TaggedPages, "The pages; of a tag that nobody has, none."),
        raises=_RAISED,
    ),
)
PAGES = (
    Operation(
        name="read_pages",
        tag=TAG,
        summary="Read the beginnings of several pages.",
        description=f"The first {query.IDS_MAX} ids, {handlers.BATCH_BODY_CHARACTERS} characters of"
        " each body. Unknown ids are left out.",
        parameters=(
            in_query(
                "ids",
                "Ids or aliases of pages, separated by commas.",
                texts_of(query.IDS_MAX),
                required=True,
                example=["running", "README"],
            ),
            _KB,
        ),
        responses=answers(bodies.PageList, "The pages."),
        raises=_RAISED,
    ),
)
PAGE = (
    Operation(
        name="read_page",
        tag=TAG,
        summary="Read a page.",
        parameters=(_PAGE, _KB),
        responses=answers(bodies.Page, "The page."),
        raises=_RAISED,
    ),
)
BACKLINKS = (
    Operation(
        name="list_backlinks",
        tag=TAG,
        summary="List the pages that link to a page.",
        parameters=(_PAGE, _KB),
        responses=answers(bodies.Backlinks, "The pages."),
        raises=_RAISED,
    ),
)
SOURCE = (
    Operation(
        name="get_source",
        tag=TAG,
        summary="Get a link to the document that a page was made of.",
        description="404 for a page without one, too.",
        parameters=(_PAGE, _KB),
        responses=answers(bodies.SourceLink, "The document and its link."),
        raises=_RAISED,
    ),
)
DOWNLOAD = (
    Operation(
        name="get_source_file",
        tag=TAG,
        summary="Follow a link to a document.",
        description="Without a key: the link is signed.",
        parameters=(
            in_path("name", "Part of the link.", "name"),
            in_query("expires", "Part of the link.", required=True),
            in_query("signature", "Part of the link.", required=True),
        ),
        responses=(
            Response(
                description="The document.",
                contents=(Content(BYTES, "application/octet-stream"),),
                headers=("Content-Disposition", "Content-Length"),
            ),
        ),
        raises=(errors.PERMISSION_DENIED, errors.NOT_FOUND, errors.INVALID_REQUEST),
    ),
)

_MESSAGE: dict[str, Any] = {
    "type": "object",
    "description": "A message in JSON-RPC 2.0.",
    "required": ["jsonrpc"],
    "properties": {
        "jsonrpc": {"const": "2.0", "description": "Always `2.0`."},
        "id": {"type": ["string", "number"], "description": "Of a request: its response has it."},
        "method": {"type": "string", "description": "What is asked for."},
        "params": {"description": "With what."},
    },
    "additionalProperties": True,
}
_REPLY: dict[str, Any] = {
    "type": "object",
    "description": "A response in JSON-RPC 2.0.",
    "required": ["jsonrpc", "id"],
    "properties": {
        "jsonrpc": {"const": "2.0", "description": "Always `2.0`."},
        "id": {
            "type": ["string", "number", "null"],
            "description": "Of the request; null where that could not be read.",
        },
        "result": {"type": "object", "description": "What was asked for."},
        "error": {
            "type": "object",
            "description": "Why there is no result.",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "integer", "description": "The error, for programs."},
                "message": {"type": "string", "description": "The error, for people."},
                "data": {"description": "More of it."},
            },
        },
    },
}
_REPLIES = {"anyOf": [_REPLY, {"type": "array", "items": _REPLY}]}
MCP = (
    Operation(
        name="mcp",
        tag=TAG,
        method="POST",
        summary="The knowledge bases as tools of the Model Context Protocol.",
        description="Streamable HTTP without sessions and without events; versions "
        f"{', '.join(json_rpc.SUPPORTED)}. Tools: {', '.join(f'`{name}`' for name in TOOLS)}.",
        parameters=(
            in_header("Mcp-Protocol-Version", "The version; absent: one with a handshake."),
            in_header("Mcp-Method", f"The method again, from version {json_rpc.STATELESS} on."),
            in_header("Mcp-Name", f"The tool again, from version {json_rpc.STATELESS} on."),
        ),
        body=({"anyOf": [_MESSAGE, {"type": "array", "items": _MESSAGE}]},),
        examples={
            "the tools there are": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            "a search": {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/call",
                "params": {"name": "search_wiki", "arguments": {"q": "balance"}},
            },
        },
        responses=(
            Response(description="The response.", contents=(Content(_REPLIES),)),
            Response(status=202, description="Nothing is to be said: notifications."),
            *(
                Response(status=status, description=described, contents=(Content(_REPLY),))
                for status, described in (
                    (406, "The client takes no JSON."),
                    (415, "The body is no JSON."),
                    (404, f"There is no such method in version {json_rpc.STATELESS}."),
                )
            ),
        ),
        other_bodies=(_REPLY,),
    ),
)

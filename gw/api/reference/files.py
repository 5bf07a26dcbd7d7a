"""Copies of results, and the description itself, in the reference."""

from __future__ import annotations

from gw import errors
from gw.api.reference import headers
from gw.api.reference.operation import (
    BYTES,
    Content,
    Operation,
    Response,
    in_header,
    in_path,
    in_query,
)

MEDIA = (
    Operation(
        name="get_media_file",
        tag="Files",
        summary="Follow a link to the copy of a result.",
        description="Without a key: links in tasks and call logs are signed.",
        parameters=(
            in_path("name", "Part of the link.", "name"),
            in_query("expires", "Part of the link.", required=True),
            in_query("signature", "Part of the link.", required=True),
            headers.RANGE,
        ),
        responses=(
            *(
                Response(
                    status=status,
                    description=described,
                    contents=(Content(BYTES, "*/*"),),
                    headers=("Accept-Ranges", "Cache-Control", "Content-Length", "ETag", *more),
                )
                for status, described, more in (
                    (200, "The file.", ()),
                    (206, "A part of the file.", ("Content-Range",)),
                )
            ),
            Response(status=307, description="The file is elsewhere.", headers=("Location",)),
        ),
        raises=(errors.PERMISSION_DENIED, errors.NOT_FOUND, (errors.INVALID_REQUEST, 416)),
    ),
)
DESCRIPTION = (
    Operation(
        name="describe",
        tag="Reference",
        summary="This document.",
        description="Without a key, and only where the configuration has it (`describe`).",
        parameters=(in_header("If-None-Match", "The `ETag` of a document that the client has."),),
        responses=(
            Response(
                description="The document.",
                contents=(Content({"type": "object"}),),
                headers=("ETag", "Cache-Control"),
            ),
            Response(
                status=304,
                description="The client has it already.",
                headers=("ETag", "Cache-Control"),
            ),
        ),
    ),
)

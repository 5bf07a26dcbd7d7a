"""`GET /openapi.json`: the reference of the public API, without a key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from gw.api.handler import ApiHandler

# A client asks again after an hour; a release may have changed it.
CACHE = "public, max-age=3600"


class Description:
    """The document, made once for a process, and the tag of its version."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'

    def __repr__(self) -> str:
        return f"<Description {self.tag}>"

    def is_known(self, tags: str) -> bool:
        """Whether a client has it, by its `If-None-Match` (RFC 9110, 13.1.2)."""
        given = {one.strip().removeprefix("W/") for one in tags.split(",")}
        return self.tag in given or "*" in given


class DescriptionHandler(ApiHandler):
    """The document, or that the client has it already."""

    def initialize(self, describe: Callable[[], Description]) -> None:
        self._describe = describe

    async def on_get(self) -> None:
        description = self._describe()
        self.set_header("Cache-Control", CACHE)
        self.set_header("ETag", description.tag)
        if description.is_known(self.request.headers.get("If-None-Match", "")):
            self.set_status(304)
            self.clear_header("Content-Type")
            self.finish(b"")
            return
        self.write(description.body)

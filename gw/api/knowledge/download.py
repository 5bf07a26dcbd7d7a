"""Source documents by signed links: no key, the exact bytes, until the link expires."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import BinaryIO

from gw.api.handler import ApiHandler
from gw.api.knowledge.handlers import unreadable
from gw.api.knowledge.query import text
from gw.api.knowledge.services import WikiServices
from gw.errors import PERMISSION_DENIED, GatewayError
from gw.knowledge.sources import Sources, account_of, disposition

# The part of a file in memory while a client is slow.
CHUNK_BYTES = 256 * 1024


class DownloadHandler(ApiHandler):
    """One source document. Its existence is visible only with a signed link."""

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
            stack.enter_context(self.services.sources.reading(name, account_of(name)))
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

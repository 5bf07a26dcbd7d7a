"""Source documents by their signed links: no key, the exact bytes, until the link expires."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import BinaryIO, cast

from gw.api.base import ApiHandler
from gw.api.wiki import parameters
from gw.api.wiki.handlers import unreadable
from gw.api.wiki.services import WikiServices
from gw.errors.table import PERMISSION_DENIED, GatewayError
from gw.knowledge.sources import Sources, disposition

# What a slow client keeps in memory of a file.
CHUNK_BYTES = 256 * 1024


class DownloadHandler(ApiHandler):
    """One source document. Whether it exists is told to whom the gateway gave a link alone."""

    route = "wiki_download"
    auth = "none"

    @property
    def wiki(self) -> WikiServices:
        return cast(WikiServices, self.settings["wiki"])

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
        """The file of a source. Raises FileNotFoundError; what is in a bucket is fetched there."""
        sources = self.wiki.sources
        if not isinstance(sources, Sources):
            raise FileNotFoundError(name)
        return sources.path(name).open("rb")

    def _refusal(self, name: str) -> str:
        """Why a link is not followed; empty where it is."""
        query = self.request.query_arguments
        expires, signature = parameters.text(query, "expires"), parameters.text(query, "signature")
        if not self.wiki.links.is_genuine(name, expires, signature):
            return "invalid"
        return "expired" if self.services.clock.now() >= int(expires) else ""

    def _describe(self, name: str, file: BinaryIO) -> None:
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Length", str(file.seek(0, 2)))
        file.seek(0)
        self.set_header("Content-Disposition", disposition(name))
        self.set_header("X-Content-Type-Options", "nosniff")

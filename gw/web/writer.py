"""The client's connection as a call writes to it, over a handler.

Headers go out with the first bytes. Waiting for each flush is the back-pressure: a client that
reads slowly slows the reading of the upstream.
"""

from __future__ import annotations

from collections.abc import Mapping

from tornado.iostream import StreamClosedError

from gw.calls.call import ClientGone
from gw.web.base import BaseHandler


class HandlerWriter:
    """Writes one answer through its handler."""

    def __init__(self, handler: BaseHandler) -> None:
        self._handler = handler
        self._has_begun = False

    @property
    def client_gone(self) -> bool:
        return self._handler.client_gone

    def owns_row(self) -> None:
        self._handler.owns_row = True

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        self._handler.set_status(http_status)
        self._handler.set_header("Content-Type", content_type)
        for name, value in headers.items():
            self._handler.set_header(name, value)

    async def write(self, block: bytes) -> None:
        self._begin_stream()
        self._handler.write(block)
        try:
            await self._handler.flush()
        except StreamClosedError as error:
            raise ClientGone from error

    def finish(self, block: bytes) -> None:
        self._begin_stream()
        self._handler.finish(block)

    def send(self, body: bytes) -> None:
        self._handler.finish(body)

    def _begin_stream(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        handler = self._handler
        handler.set_header("Cache-Control", "no-cache")
        handler.set_header("X-Accel-Buffering", "no")  # nginx would collect the events otherwise

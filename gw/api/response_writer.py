"""The response of a call, written through its handler.

Headers are sent with the first bytes. Back-pressure: a call that waits for a write to a slow
client does not read its upstream meanwhile.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping

from gw.api.handler import ApiHandler
from gw.calls.call import ClientGone


class HandlerWriter:
    """Writes one response through its handler."""

    __slots__ = ("_handler", "_has_begun", "_request")

    sends_at_once = True

    def __init__(self, handler: ApiHandler) -> None:
        self._handler = handler
        self._request = handler.request
        self._has_begun = False

    @property
    def client_gone(self) -> bool:
        return self._request.client_gone

    def hold_decided(self) -> None:
        self._handler.owns_row = True
        self._handler.held()

    def keep_header(self, name: str, value: str) -> None:
        self._handler.keep_header(name, value)

    def forget_request(self) -> None:
        self._request.forget_body()

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        handler = self._handler
        if http_status != 200:  # the default
            handler.set_status(http_status)
        if content_type != "application/json":  # the same
            handler.set_header("Content-Type", content_type)
        for name, value in headers.items():
            handler.set_header(name, value)

    def write(self, block: bytes) -> Future[None] | None:
        if self._has_begun:
            # Not through the handler, which would only buffer it.
            sent = self._request.write(block)
        else:
            self._begin_stream()
            self._handler.write(block)
            sent = self._handler.flush()
        if not sent.done():
            return _kept_up(sent)
        if sent.exception() is not None:
            raise ClientGone
        return None

    def finish(self, block: bytes) -> None:
        self._begin_stream()
        self._handler.finish(block)

    def break_off(self, block: bytes) -> None:
        self._begin_stream()
        self._handler.break_off(block)

    def send(self, body: bytes) -> None:
        self._handler.finish(body)

    def _begin_stream(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        handler = self._handler
        handler.set_header("Cache-Control", "no-cache")
        handler.set_header("X-Accel-Buffering", "no")  # else nginx buffers the events


def _kept_up(sent: Future[None]) -> Future[None]:
    """Return a future that is done with `sent`, and fails with ClientGone if that failed."""
    kept_up: Future[None] = sent.get_loop().create_future()

    def pass_on(sent: Future[None]) -> None:
        if kept_up.done():
            return
        if sent.cancelled() or sent.exception() is not None:
            kept_up.set_exception(ClientGone())
            kept_up.exception()  # marks it as retrieved: awaiting it is optional
        else:
            kept_up.set_result(None)

    sent.add_done_callback(pass_on)
    return kept_up

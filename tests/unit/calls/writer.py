"""The client's side of a call: what it was sent, how slowly it reads, when it leaves."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Mapping

from gw.calls.call import ClientGone


class RecordingWriter:
    """Takes an answer. Every block waits at the gate `reads`; it leaves after so many blocks."""

    sends_at_once = True

    def __init__(
        self, *, reads: asyncio.Event | None = None, leaves_after: int | None = None
    ) -> None:
        self._reads = reads
        self.leaves_after = leaves_after
        self.task: asyncio.Task[None] | None = None
        self.client_gone = False
        self.is_cut = False
        self.is_row_owned = False
        self.blocks: list[bytes] = []
        self.waiting = 0
        self.has_ended = False
        self.has_forgotten = False
        self.content_type: str | None = None
        self.http_status = 200

    @property
    def sent(self) -> bytes:
        """Every byte the client was sent."""
        return b"".join(self.blocks)

    def owns_row(self) -> None:
        self.is_row_owned = True

    def forget_request(self) -> None:
        self.has_forgotten = True

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        self.http_status = http_status
        self.content_type = content_type
        self.headers = dict(headers)

    def write(self, block: bytes) -> Future[None] | None:
        assert not self.has_ended
        assert block
        if self.leaves_after is not None and len(self.blocks) == self.leaves_after:
            self.client_gone = True
            raise ClientGone
        self.blocks.append(block)
        return None if self._reads is None else asyncio.ensure_future(self._kept_up(self._reads))

    async def _kept_up(self, reads: asyncio.Event) -> None:
        self.waiting += 1
        await reads.wait()
        self.waiting -= 1

    def finish(self, block: bytes) -> None:
        assert not self.has_ended
        self.has_ended = True
        if block:
            self.blocks.append(block)

    def send(self, body: bytes) -> None:
        assert not self.has_ended
        assert not self.blocks
        self.has_ended = True
        self.blocks.append(body)

    # What happens to a handler

    def leave(self) -> None:
        """The client closes its connection: the handler cancels the call."""
        assert self.task is not None
        self.client_gone = True
        self.task.cancel()

    def cut(self) -> None:
        """The process ends: the drain cancels the call."""
        assert self.task is not None
        self.is_cut = True
        self.task.cancel()

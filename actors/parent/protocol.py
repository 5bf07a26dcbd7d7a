"""The protocol of a worker and its parent: one line of JSON for each request and response.

A response has the number of its request, which identifies a late one. Messages about limits are
the commands of `actors/limits/backend.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from actors.limits import backend
from actors.limits.status import LimitStatus


class LineBuffer:
    """Holds an incomplete line; `size` is its length."""

    def __init__(self) -> None:
        self._unfinished = bytearray()

    @property
    def size(self) -> int:
        """The number of bytes held."""
        return len(self._unfinished)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, without their ends."""
        first, *others = data.split(b"\n")
        self._unfinished += first
        if not others:
            return []
        lines = [bytes(self._unfinished), *others[:-1]]
        self._unfinished = bytearray(others[-1])
        return lines


# A reconnecting worker sends 16 pieces of 200 requests in one line, of some 40 bytes each; a stored
# summary is the longest line, with every quote escaped.
RESPONSE_BYTES_MAX = 1024 * 1024
LINE_BYTES_MAX = 8 * RESPONSE_BYTES_MAX


class EnterMessage(Struct, array_like=True, tag="enter"):
    """An `EnterCommand`."""

    name: str
    slot: int
    rpm: int | None
    concurrency: int | None


class RenewMessage(Struct, array_like=True, tag="keep"):
    """A `RenewCommand`."""

    name: str
    permits: tuple[int, ...]
    window: tuple[tuple[int, float], ...]


class ReleaseMessage(Struct, array_like=True, tag="release"):
    """A `ReleaseCommand`."""

    name: str
    slot: int
    from_window: bool


LimitMessage: TypeAlias = EnterMessage | RenewMessage | ReleaseMessage


class Begin(Struct, array_like=True, tag="begin"):
    """Drop what this worker has in flight; it is reported again."""


class CommandBatch(Struct, array_like=True, tag="limits"):
    """Commands for limits; the response has as many `statuses`."""

    messages: list[LimitMessage]


class FindSummary(Struct, array_like=True, tag="find"):
    """Request a summary stored by another worker in this minute: `text`, or None."""

    question: str
    minute: int


class StoreSummary(Struct, array_like=True, tag="store"):
    """Store a summary for the rest of its minute. The response's `text` is the first one stored."""

    question: str
    minute: int
    text: str


class ParentRequest(Struct, array_like=True):
    """A worker's line."""

    number: int
    body: Begin | CommandBatch | FindSummary | StoreSummary


class ParentReply(Struct, array_like=True):
    """The parent's line."""

    number: int
    statuses: Sequence[LimitStatus | None] = ()  # of `enter` commands; None for others
    text: str | None = None


def message_of(command: backend.LimitCommand) -> LimitMessage:
    """Return the message for `command`."""
    match command:
        case backend.EnterCommand():
            return EnterMessage(command.name, command.slot, command.rpm, command.concurrency)
        case backend.RenewCommand():
            return RenewMessage(command.name, command.permits, command.window)
        case backend.ReleaseCommand():
            return ReleaseMessage(command.name, command.slot, command.from_window)

"""What a worker and its parent say to each other: one line of JSON for each request and response.

A response has the number of its request, so that a late one is known by it. What
is said about limits are the words of `actors/limits/commands.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from actors.limits.commands import EnterCommand, LimitCommand, ReleaseCommand, RenewCommand
from actors.limits.status import LimitStatus

# A worker that comes back says 16 pieces of 200 requests in one line, of some 40 bytes each; an
# answer kept for the others is the longest, with every quote escaped.
RESPONSE_BYTES_MAX = 1024 * 1024
LINE_BYTES_MAX = 8 * RESPONSE_BYTES_MAX


class EnterMessage(Struct, array_like=True, tag="enter"):
    """See `words.EnterCommand`."""

    name: str
    slot: int
    rpm: int | None
    concurrency: int | None


class RenewMessage(Struct, array_like=True, tag="keep"):
    """See `words.RenewCommand`."""

    name: str
    leases: tuple[int, ...]
    window: tuple[tuple[int, float], ...]


class ReleaseMessage(Struct, array_like=True, tag="release"):
    """See `words.ReleaseCommand`."""

    name: str
    slot: int
    from_window: bool


Message: TypeAlias = EnterMessage | RenewMessage | ReleaseMessage


class Begin(Struct, array_like=True, tag="begin"):
    """Forget what this worker has in flight; it is said anew."""


class CommandBatch(Struct, array_like=True, tag="limits"):
    """Words about limits; the response has as many `statuses`."""

    messages: list[Message]


class FindSummary(Struct, array_like=True, tag="find"):
    """The reply to a question that another worker has given in this minute: `text`, or none."""

    question: str
    minute: int


class StoreSummary(Struct, array_like=True, tag="store"):
    """A reply for the rest of its minute. The response's `text` is the one that was first."""

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
    statuses: Sequence[LimitStatus | None] = ()  # of `enter`s; None for other words
    text: str | None = None


def message(command: LimitCommand) -> Message:
    """The message that says `command`."""
    match command:
        case EnterCommand():
            return EnterMessage(command.name, command.slot, command.rpm, command.concurrency)
        case RenewCommand():
            return RenewMessage(command.name, command.leases, command.window)
        case ReleaseCommand():
            return ReleaseMessage(command.name, command.slot, command.from_window)

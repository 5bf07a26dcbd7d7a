"""What a worker and its parent say to each other about limits: one line of JSON each way.

A worker sends one `Request` at a time and the parent answers it with a `Response` of the same
number, so that an answer nobody waits for any more is known by it. Written by `parent.py` and read
by `server.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from actors.limits.standing import Standing
from actors.limits.words import Enter, Keep, Release, Word

# A worker that comes back says 16 pieces of 200 requests in one line, of some 40 bytes each.
LINE_BYTES_MAX = 1024 * 1024


class EnterMessage(Struct, array_like=True, tag="enter"):
    """See `words.Enter`."""

    name: str
    place: int
    rpm: int | None
    concurrency: int | None


class KeepMessage(Struct, array_like=True, tag="keep"):
    """See `words.Keep`."""

    name: str
    leases: tuple[int, ...]
    window: tuple[tuple[int, float], ...]


class ReleaseMessage(Struct, array_like=True, tag="release"):
    """See `words.Release`."""

    name: str
    place: int
    from_window: bool


Message: TypeAlias = EnterMessage | KeepMessage | ReleaseMessage


class Request(Struct, array_like=True):
    """A batch of words; None: forget what this worker has in flight, it is said anew."""

    number: int
    messages: list[Message] | None


class Response(Struct, array_like=True):
    """The standings of a batch's `enter`s, None for its other words."""

    number: int
    standings: Sequence[Standing | None]


def message(word: Word) -> Message:
    """The message that says `word`."""
    match word:
        case Enter():
            return EnterMessage(word.name, word.place, word.rpm, word.concurrency)
        case Keep():
            return KeepMessage(word.name, word.leases, word.window)
        case Release():
            return ReleaseMessage(word.name, word.place, word.from_window)

"""Shared reads: requests made during a read are answered by the next one, together.

Each request receives the result for its own name, and none receives a stale one. Independent of
keys; `cache.py` uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Generic, TypeVar

Q = TypeVar("Q")
T = TypeVar("T")

# Names in one statement, some ten kilobytes; the rest waits for the next.
READ_MAX = 256


class ChangeLog:
    """The changes since the read under way began."""

    __slots__ = ("changes", "has_gap")

    def __init__(self) -> None:
        self.changes: set[str] = set()
        self.has_gap = False  # unknown changes were missed


# Results by name. An exception is raised to the requests of its name; a missing name is read again.
Results = Mapping[bytes, T | Exception]
Read = Callable[[Mapping[bytes, Q], ChangeLog], Awaitable[Results[T]]]


class PendingRead(Generic[Q, T]):
    """The requests that wait for one name."""

    __slots__ = ("text", "waiting")

    def __init__(self, text: Q) -> None:
        self.text = text
        self.waiting: list[asyncio.Future[T]] = []

    def resolve(self, outcome: T | Exception) -> None:
        for reply in self.waiting:
            if reply.done():  # cancelled
                continue
            if isinstance(outcome, Exception):
                reply.set_exception(outcome)
            else:
                reply.set_result(outcome)


class SharedReads(Generic[Q, T]):
    """Reads by name, one at a time for all requests that wait."""

    def __init__(self, read: Read[Q, T]) -> None:
        self._read = read
        self._next: dict[bytes, PendingRead[Q, T]] = {}
        self._under_way: dict[bytes, PendingRead[Q, T]] = {}
        self._heard = ChangeLog()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._next) + len(self._under_way)

    def __repr__(self) -> str:
        return f"<SharedReads {len(self._under_way)} under way {len(self._next)} waiting>"

    def note_change(self, change: str | None) -> None:
        """Report a change to the read under way; None: what changed is unknown."""
        if change is None:
            self._heard.has_gap = True
        elif self._under_way:
            self._heard.changes.add(change)

    async def read_shared(self, name: bytes, text: Q) -> T:
        """Return the result for a name, shared with other requests for it.

        Raises the error of the read. Cancelling one request does not cancel the read.
        """
        question = self._under_way.get(name) or self._next.get(name)
        if question is None:
            question = self._next[name] = PendingRead(text)
            if self._task is None:
                # It begins in the loop's next iteration, with all requests made in this one.
                self._task = asyncio.create_task(self._work())
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        question.waiting.append(reply)
        return await reply

    async def _work(self) -> None:
        """Read until no request waits."""
        try:
            while self._next:
                names = list(islice(self._next, READ_MAX))
                self._under_way = {name: self._next.pop(name) for name in names}
                self._heard = ChangeLog()
                await self._read_once(self._under_way)
        finally:
            # Requests are left only when this is cancelled, at the end of the loop.
            for question in (*self._under_way.values(), *self._next.values()):
                for reply in question.waiting:
                    reply.cancel()
            self._next, self._under_way, self._task = {}, {}, None

    async def _read_once(self, questions: Mapping[bytes, PendingRead[Q, T]]) -> None:
        try:
            results = await self._read(
                {name: question.text for name, question in questions.items()}, self._heard
            )
        except Exception as error:  # noqa: BLE001 - raised to every request that waits
            results = dict.fromkeys(questions, error)
        self._under_way = {}
        for name, question in questions.items():
            if name in results:
                question.resolve(results[name])
            else:
                self._next[name] = question

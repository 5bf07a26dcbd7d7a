"""Reads that many share: what is asked for while a read is under way goes into the next, as one.

Each asker gets the response to its own question, and no asker gets stale news. Knows nothing of
keys; the cache that uses it is `cache.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Generic, TypeVar

Q = TypeVar("Q")
T = TypeVar("T")

# So many questions are one statement of some ten kilobytes; the rest waits for the next.
READ_MAX = 256


class ChangeLog:
    """What has changed since the read under way began."""

    __slots__ = ("changes", "has_gap")

    def __init__(self) -> None:
        self.changes: set[str] = set()
        self.has_gap = False  # something changed, and it is not known what


# Answers by name. An exception is raised to its askers; what is left out is read once more.
Results = Mapping[bytes, T | Exception]
Read = Callable[[Mapping[bytes, Q], ChangeLog], Awaitable[Results[T]]]


class PendingRead(Generic[Q, T]):
    """What is to be read under one name, and who waits for it."""

    __slots__ = ("text", "waiting")

    def __init__(self, text: Q) -> None:
        self.text = text
        self.waiting: list[asyncio.Future[T]] = []

    def resolve(self, outcome: T | Exception) -> None:
        for reply in self.waiting:
            if reply.done():  # its asker has left
                continue
            if isinstance(outcome, Exception):
                reply.set_exception(outcome)
            else:
                reply.set_result(outcome)


class SharedReads(Generic[Q, T]):
    """Questions by name, with one read at a time for all that wait."""

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

    def note(self, change: str | None) -> None:
        """Tell the read under way of a change; None: what changed is unknown."""
        if change is None:
            self._heard.has_gap = True
        elif self._under_way:
            self._heard.changes.add(change)

    async def ask(self, name: bytes, text: Q) -> T:
        """Return the response to the question of this name, shared with those who asked it before.

        Raises what the read said of it. An asker that is cancelled leaves the read to the others.
        """
        question = self._under_way.get(name) or self._next.get(name)
        if question is None:
            question = self._next[name] = PendingRead(text)
            if self._task is None:
                # It begins in the next turn of the loop, with all that is asked in this one.
                self._task = asyncio.create_task(self._work())
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        question.waiting.append(reply)
        return await reply

    async def _work(self) -> None:
        """Read until no asker waits."""
        try:
            while self._next:
                names = list(islice(self._next, READ_MAX))
                self._under_way = {name: self._next.pop(name) for name in names}
                self._heard = ChangeLog()
                await self._read_once(self._under_way)
        finally:
            # Left early only by a cancellation from outside, when the loop ends.
            for question in (*self._under_way.values(), *self._next.values()):
                for reply in question.waiting:
                    reply.cancel()
            self._next, self._under_way, self._task = {}, {}, None

    async def _read_once(self, questions: Mapping[bytes, PendingRead[Q, T]]) -> None:
        try:
            results = await self._read(
                {name: question.text for name, question in questions.items()}, self._heard
            )
        except Exception as error:  # noqa: BLE001 - it is for those who asked, and for all of them
            results = dict.fromkeys(questions, error)
        self._under_way = {}
        for name, question in questions.items():
            if name in results:
                question.resolve(results[name])
            else:
                self._next[name] = question

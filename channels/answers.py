"""The large answers that a process keeps whole: from an upstream's bytes to the client's last read.

A whole answer is read before anything of it is sent, because its usage stands in it, and is then
unsent bytes until its client has read it. Clients decide how long that takes, so answers share a
limit, with a part for each account. An answer that finds no room waits: its upstream is not read
meanwhile. What makes room are clients that read; a slow one that others of its account wait for is
cut (its call is settled by then). No answer waits for answers that wait themselves: it takes what
nobody else waits for, and the rest where nothing else goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Protocol

from channels.shares import Shares

# Default limit of the large answers of all clients.
ANSWERS_BYTES = 256 * 1024 * 1024
# Smaller answers are not counted.
SMALL_ANSWER_BYTES = 256 * 1024
# How long an answer waits for clients that read slower than this, on average, before one is cut.
PATIENCE_SECONDS = 10.0
SLOW_BYTES_PER_SECOND = 128 * 1024
# How long one that waits for its account's others, which wait too, leaves the room to others.
LENT_AFTER_SECONDS = 1.0


class AnswerKeeper(Protocol):
    """The request that an answer is for."""

    async def keep(self, size_bytes: int) -> None:
        """Wait until the answer may have this size."""


# The request of the running task; None where nobody waits for an answer.
KEEPER: ContextVar[AnswerKeeper | None] = ContextVar("KEEPER", default=None)


class AnswerBudget:
    """The large answers of a process. One per process."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._answers: dict[str, dict[Answer, None]] = {}  # by account, the oldest first

    @property
    def used_bytes(self) -> int:
        """The bytes of all answers."""
        return self._shares.used

    def begin(self, owner: str, cut: Callable[[], None], unsent: Callable[[], int]) -> Answer:
        """Begin an answer; `cut` ends it, `unsent` returns its bytes that are not sent yet."""
        answer = Answer(self, owner, cut, unsent)
        self._answers.setdefault(owner, {})[answer] = None
        return answer

    async def grow(self, answer: Answer, more: int) -> None:
        """Take so many more bytes for an answer, as soon as there is room."""
        shares, owner = self._shares, answer.owner
        answer.is_waiting = True
        try:
            while not shares.try_take(owner, more):
                # Those whose end would make room.
                others = list(self._beside(answer, is_own=not shares.is_within(owner, more)))
                patience = PATIENCE_SECONDS
                if all(other.is_waiting for other in others):
                    if shares.try_lend(owner, more):
                        break
                    if all(other.is_waiting for other in self._beside(answer, is_own=False)):
                        shares.force(owner, more)
                        break
                    patience = LENT_AFTER_SECONDS
                try:
                    async with asyncio.timeout(patience):
                        await shares.take(owner, more)
                    break
                except TimeoutError:
                    self._cut_slowest(others)
        finally:
            answer.is_waiting = False
        if answer in self._answers.get(owner, ()):
            answer.size_bytes += more
        else:  # it has ended meanwhile, for work that outlives its request
            shares.give_back(owner, more)

    def note(self, answer: Answer, more: int) -> None:
        """Count bytes that are there already, or not needed after all (negative).

        Slow readers of the same account are cut if it has more than its part by then.
        """
        if more < 0:
            self._shares.give_back(answer.owner, -more)
        else:
            self._shares.force(answer.owner, more)
        answer.size_bytes += more
        self._relieve(answer.owner)

    def end(self, answer: Answer) -> None:
        """Release an answer. A second call does nothing."""
        owner, mine = answer.owner, self._answers.get(answer.owner, {})
        if answer in mine:
            del mine[answer]
            if not mine:
                del self._answers[owner]
            if answer.size_bytes:
                self._shares.give_back(owner, answer.size_bytes)

    def _relieve(self, owner: str) -> None:
        """Cut slow readers of an account that has more than its part, now and as they turn out."""
        while not self._shares.is_within(owner, 0):
            if not self._cut_slowest(self._answers[owner]):
                asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._relieve, owner)
                return

    def _beside(self, answer: Answer, *, is_own: bool) -> Iterable[Answer]:
        owners = [answer.owner] if is_own else list(self._answers)
        for owner in owners:
            for other in list(self._answers.get(owner, ())):
                if other is not answer and other.size_bytes:
                    yield other

    @staticmethod
    def _cut_slowest(answers: Iterable[Answer]) -> bool:
        """Cut the slowest of those that are read too slowly; False if there is none."""
        slow = [one for one in answers if one.pace is not None]
        slowest = min(slow, key=lambda one: one.pace or 0.0, default=None)
        if slowest is None or (slowest.pace or 0.0) >= SLOW_BYTES_PER_SECOND:
            return False
        slowest.end()
        slowest.cut()
        return True


class Answer:
    """One whole answer, from its first bytes to its client's last read."""

    __slots__ = ("_budget", "_sent_at", "cut", "is_waiting", "owner", "size_bytes", "unsent")

    def __init__(
        self,
        budget: AnswerBudget,
        owner: str,
        cut: Callable[[], None],
        unsent: Callable[[], int],
    ) -> None:
        self._budget = budget
        self._sent_at: float | None = None  # loop time
        self.owner = owner
        self.cut = cut
        self.unsent = unsent
        self.size_bytes = 0
        self.is_waiting = False

    @property
    def pace(self) -> float | None:
        """The bytes a second that its client reads; None for a while, and before it is sent."""
        if self._sent_at is None:
            return None
        age = asyncio.get_running_loop().time() - self._sent_at
        return None if age < PATIENCE_SECONDS else (self.size_bytes - self.unsent()) / age

    async def grow(self, size_bytes: int) -> None:
        """Wait until the answer may have this size."""
        if size_bytes > self.size_bytes:
            await self._budget.grow(self, size_bytes - self.size_bytes)

    def sent(self, size_bytes: int) -> None:
        """The answer, of this size in the end, is given to its connection."""
        self._sent_at = asyncio.get_running_loop().time()
        self._budget.note(self, size_bytes - self.size_bytes)

    def end(self) -> None:
        """The client has all of it, or has left. A second call does nothing."""
        self._budget.end(self)

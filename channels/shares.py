"""A limit that owners share: slots or bytes, a part of them for each owner, turns for who waits.

An owner is whoever could take all of it: an account, a link, a session. The process itself is the
owner "", for which only the whole limit holds. Every pool of a process that strangers can fill is
one of these.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# The owner of what the running task does; set once its key, session or link is known.
OWNER: ContextVar[str] = ContextVar("OWNER", default="")


class ShareRefused(Exception):
    """The limit, or the owner's part of it, is used up."""


class Shares:
    """A `limit`, of which an owner has at most `each`. One per pool and process.

    Owners that wait take turns, one item each. Where amounts differ, nobody overtakes an owner that
    only waits for the whole limit.
    """

    __slots__ = ("_is_blocked", "_used", "_waiting", "each", "limit", "used", "waiting_each")

    def __init__(self, limit: int, each: int, *, waiting_each: int = 1000) -> None:
        """`waiting_each`: how many items of one owner may wait."""
        self.limit = limit
        self.each = each
        self.waiting_each = waiting_each
        self.used = 0
        self._used: dict[str, int] = {}
        self._waiting: OrderedDict[str, deque[tuple[Future[None], int]]] = OrderedDict()
        self._is_blocked = False  # an owner within its part waits for the whole limit

    def __repr__(self) -> str:
        return f"<Shares {self.used} of {self.limit}, {len(self._waiting)} owners wait>"

    def used_by(self, owner: str) -> int:
        """Return the part that an owner has."""
        return self._used.get(owner, 0)

    def is_within(self, owner: str, amount: int = 1) -> bool:
        """Whether so much more is within the owner's part; a first amount always is."""
        used = self._used.get(owner, 0)
        return not owner or not used or used + amount <= self.each

    def full(self) -> list[str]:
        """Return the owners that have all of their part."""
        return [owner for owner, used in self._used.items() if owner and used >= self.each]

    def try_take(self, owner: str, amount: int = 1) -> bool:
        """Take without waiting; False where that would wait."""
        if self._waiting and (self._is_blocked or owner in self._waiting):
            return False
        if not (self._has_room(amount) and self.is_within(owner, amount)):
            return False
        self.force(owner, amount)
        return True

    def try_lend(self, owner: str, amount: int = 1) -> bool:
        """Take beyond the owner's part what the whole limit has, and nobody else waits for."""
        if (self._waiting and self._is_blocked) or not self._has_room(amount):
            return False
        self.force(owner, amount)
        return True

    def force(self, owner: str, amount: int) -> None:
        """Take beyond the limit: what exists already is only counted."""
        self.used += amount
        self._used[owner] = self._used.get(owner, 0) + amount

    def give_back(self, owner: str, amount: int = 1) -> None:
        """Release, and let those take whose turn it is."""
        self.used -= amount
        left = self._used[owner] - amount
        if left:
            self._used[owner] = left
        else:
            del self._used[owner]
        if self._waiting:
            self._grant()

    async def take(self, owner: str, amount: int = 1) -> None:
        """Take, after a wait if necessary. Raises ShareRefused if too many of the owner wait."""
        if self.try_take(owner, amount):
            return
        queue = self._waiting.get(owner)
        if queue is None:
            queue = self._waiting[owner] = deque()
        elif owner and len(queue) >= self.waiting_each:
            raise ShareRefused
        turn: Future[None] = asyncio.get_running_loop().create_future()
        queue.append((turn, amount))
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(owner, amount)
            else:
                self._leave(owner, turn)
            raise

    @contextmanager
    def held(self, owner: str) -> Iterator[None]:
        """Have one item within this context. Raises ShareRefused, and never waits."""
        if not self.try_take(owner):
            raise ShareRefused
        try:
            yield
        finally:
            self.give_back(owner)

    def _has_room(self, amount: int) -> bool:
        return not self.used or self.used + amount <= self.limit

    def _grant(self) -> None:
        """Let owners take, the one whose last turn is longest ago first, one item each."""
        self._is_blocked = False
        is_moving = True
        while is_moving:
            is_moving = False
            for owner in list(self._waiting):
                queue = self._waiting[owner]
                turn, amount = queue[0]
                if not turn.done():
                    if not self.is_within(owner, amount):
                        continue
                    if not self._has_room(amount):
                        self._is_blocked = True
                        return
                    self.force(owner, amount)
                    turn.set_result(None)
                queue.popleft()
                is_moving = True
                self._waiting.move_to_end(owner)
                if not queue:
                    del self._waiting[owner]

    def _leave(self, owner: str, turn: Future[None]) -> None:
        """Remove a turn whose waiter was cancelled."""
        queue = self._waiting.get(owner, deque())
        for item in queue:
            if item[0] is turn:
                queue.remove(item)
                break
        if not queue:
            self._waiting.pop(owner, None)
        self._grant()


def halves(limit_bytes: int, least_bytes: int) -> Shares:
    """Return shares of bytes, half of them for each owner, with room for one item of the largest
    size."""
    limit = max(limit_bytes, least_bytes)
    return Shares(limit, max(limit // 2, least_bytes))

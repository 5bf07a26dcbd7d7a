"""Caches replies of upstreams; concurrent callers wait for the same request.

A good reply is used until it is too old, and longer while no better one is available.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from actors.clock import Clock
from channels.media import replies
from channels.registry import ChannelSpec

T = TypeVar("T")

# Templates are cached one by one, and clients choose their ids: the oldest is dropped.
REPLIES_MAX = 1000
# After a failure the old reply is used for so long before the upstream is asked again.
RETRY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a channel: the name of a list, and an argument."""

    channel: ChannelSpec
    what: str
    argument: str = ""

    @property
    def key(self) -> Key:
        return self.channel.id, self.what, self.argument


Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A good reply of a channel with that configuration; refreshed at `ask_at`."""

    channel: ChannelSpec
    reply: replies.CatalogValue[Any]
    ask_at: float  # monotonic seconds


class ReplyMemory:
    """Caches good replies for `fresh_seconds`. One per process."""

    def __init__(self, *, fresh_seconds: float, clock: Clock) -> None:
        self._fresh_seconds = fresh_seconds
        self._clock = clock
        self._remembered: OrderedDict[Key, _Remembered] = OrderedDict()
        self._asking: dict[Key, asyncio.Task[Any]] = {}

    def __len__(self) -> int:
        return len(self._remembered)

    async def reply(
        self, question: Question, ask: Callable[[], Awaitable[replies.CatalogReply[T]]]
    ) -> replies.CatalogReply[T]:
        """Return the reply to a question, from `ask` unless a fresh one is cached.

        A cancelled caller does not cancel the question, which other callers share.
        """
        known = self._find(question)
        if known is not None and self._clock.monotonic() < known.ask_at:
            return known.reply
        task = self._asking.get(question.key)
        if task is None:
            task = asyncio.create_task(self._ask(question, ask), name="catalog")
            self._asking[question.key] = task
            task.add_done_callback(lambda done: self._asked(question.key, done))
        await asyncio.wait([task])
        reply: replies.CatalogReply[T] = task.result()
        return reply

    async def close(self) -> None:
        """Cancel all requests."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)

    def _asked(self, key: Key, done: asyncio.Task[Any]) -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # raised in each caller; there may be none left to retrieve it

    def _find(self, question: Question) -> _Remembered | None:
        known = self._remembered.get(question.key)
        return known if known is not None and known.channel == question.channel else None

    async def _ask(
        self, question: Question, ask: Callable[[], Awaitable[replies.CatalogReply[T]]]
    ) -> replies.CatalogReply[T]:
        reply = await ask()
        if isinstance(reply, replies.CatalogValue):
            self._remember(question, reply, self._fresh_seconds)
            return reply
        if _is_gone(reply):
            self._remembered.pop(question.key, None)
            return reply
        known = self._find(question)
        if known is None:
            return reply
        self._remember(question, known.reply, min(RETRY_SECONDS, self._fresh_seconds))
        return known.reply

    def _remember(
        self, question: Question, reply: replies.CatalogValue[Any], seconds: float
    ) -> None:
        ask_at = self._clock.monotonic() + seconds
        self._remembered[question.key] = _Remembered(question.channel, reply, ask_at)
        self._remembered.move_to_end(question.key)
        if len(self) > REPLIES_MAX:
            self._remembered.popitem(last=False)


def _is_gone(reply: replies.Refused | replies.Failed) -> bool:
    """Whether the upstream reports that it does not exist, so that no old reply applies."""
    return isinstance(reply, replies.Refused) and reply.status == 404

"""Large answers share a limit: they wait for room, slow readers make it, nothing waits for ever."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from channels.answers import (
    LENT_AFTER_SECONDS,
    PATIENCE_SECONDS,
    SLOW_BYTES_PER_SECOND,
    Answer,
    AnswerBudget,
)
from channels.shares import Shares
from tests.support.aio import eventually, jump

MB = 1024 * 1024


class Client:
    """An answer and its client, who has read so much of it."""

    def __init__(self, budget: AnswerBudget, owner: str) -> None:
        self.unsent = 0
        self.is_cut = False
        self.answer: Answer = budget.begin(owner, self._cut, lambda: self.unsent)

    def _cut(self) -> None:
        self.is_cut = True

    async def gets(self, size: int) -> None:
        """An answer is read whole from its upstream, and written to the client's connection."""
        await self.answer.grow(size)
        self.unsent = size
        self.answer.sent(size)

    def reads(self) -> None:
        self.unsent = 0
        self.answer.end()


async def settled(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that has gone as far as it can."""
    task = asyncio.ensure_future(work)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def passing(seconds: float, until: Callable[[], bool]) -> None:
    jump(seconds)
    await eventually(until, what="what that time brings")


async def test_answers_of_an_account_wait_for_its_part_and_others_do_not() -> None:
    budget = AnswerBudget(Shares(10 * MB, 4 * MB))
    first, second, third, other = (Client(budget, owner) for owner in "aaab")
    await first.gets(2 * MB)
    await second.gets(2 * MB)
    waiting = await settled(third.gets(2 * MB))
    assert not waiting.done()
    await other.gets(4 * MB)
    first.reads()
    await waiting
    assert budget.used_bytes == 8 * MB
    for client in (second, third, other, other):
        client.reads()
    assert budget.used_bytes == 0
    assert not any(client.is_cut for client in (first, second, third, other))


async def test_slow_reader_is_cut_for_an_answer_that_waits_and_a_faster_one_is_not() -> None:
    budget = AnswerBudget(Shares(100 * MB, 40 * MB))
    slow, fast, next_one, stranger = (Client(budget, owner) for owner in "aaab")
    await slow.gets(20 * MB)
    await fast.gets(20 * MB)
    await stranger.gets(20 * MB)
    waiting = await settled(next_one.gets(20 * MB))
    fast.unsent -= int(SLOW_BYTES_PER_SECOND * PATIENCE_SECONDS) + MB
    await passing(PATIENCE_SECONDS + 0.1, waiting.done)
    assert (slow.is_cut, fast.is_cut, stranger.is_cut) == (True, False, False)
    assert budget.used_bytes == 60 * MB


async def test_answers_that_are_half_read_never_wait_for_each_other() -> None:
    budget = AnswerBudget(Shares(100 * MB, 4 * MB))
    first, second = Client(budget, "a"), Client(budget, "a")
    await first.answer.grow(2 * MB)
    await second.answer.grow(2 * MB)
    waiting = await settled(first.answer.grow(3 * MB))
    assert not waiting.done()
    await second.answer.grow(3 * MB)  # all that it could wait for waits itself
    second.reads()
    await waiting


async def test_account_whose_answers_wait_for_each_other_takes_nothing_that_another_waits_for() -> (
    None
):
    budget = AnswerBudget(Shares(10 * MB, 4 * MB))
    first, second, other, last = (Client(budget, owner) for owner in "aabc")
    await first.answer.grow(2 * MB)
    await second.answer.grow(2 * MB)
    await other.gets(4 * MB)
    waiting = await settled(last.gets(4 * MB))  # for the whole limit
    half = [await settled(one.answer.grow(4 * MB)) for one in (first, second)]
    assert not any(one.done() for one in (waiting, *half))
    other.reads()
    await waiting
    await passing(LENT_AFTER_SECONDS, lambda: any(one.done() for one in half))
    assert budget.used_bytes == 10 * MB
    last.reads()
    first.reads()
    second.reads()
    await asyncio.gather(*half)
    assert budget.used_bytes == 0


async def test_one_account_after_another_has_room_when_all_is_used() -> None:
    budget = AnswerBudget(Shares(4 * MB, 4 * MB))
    holder = Client(budget, "holder")
    await holder.gets(4 * MB)
    order: list[str] = []

    async def get(owner: str) -> None:
        client = Client(budget, owner)
        await client.gets(4 * MB)
        order.append(owner)
        client.reads()

    tasks = [await settled(get(owner)) for owner in "aaab"]
    holder.reads()
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "a", "a"]


async def test_answers_made_here_are_counted_and_their_slow_readers_cut() -> None:
    """What needs no reading waits for nothing: it is there already."""
    budget = AnswerBudget(Shares(100 * MB, 10 * MB))
    clients = [Client(budget, "a") for _ in range(16)]
    for client in clients:
        client.unsent = 30 * MB
        client.answer.sent(30 * MB)
    assert budget.used_bytes == 480 * MB
    await passing(PATIENCE_SECONDS + 0.1, lambda: budget.used_bytes <= 30 * MB)
    assert sum(client.is_cut for client in clients) >= 15
    for client in clients:
        client.reads()
    assert budget.used_bytes == 0


async def test_client_that_leaves_while_its_answer_waits_leaves_nothing() -> None:
    budget = AnswerBudget(Shares(4 * MB, 4 * MB))
    holder, leaving = Client(budget, "a"), Client(budget, "a")
    await holder.gets(4 * MB)
    waiting = await settled(leaving.gets(4 * MB))
    waiting.cancel()
    await asyncio.wait([waiting])
    leaving.answer.end()
    holder.reads()
    assert budget.used_bytes == 0
    await leaving.answer.grow(0)


async def test_work_that_outlives_its_request_while_it_waits_leaves_nothing() -> None:
    budget = AnswerBudget(Shares(4 * MB, 4 * MB))
    holder, leaving = Client(budget, "a"), Client(budget, "a")
    await holder.gets(4 * MB)
    detached = await settled(leaving.answer.grow(4 * MB))
    leaving.answer.end()  # the client has left, and the work continues without it
    holder.reads()
    await detached
    assert budget.used_bytes == 0

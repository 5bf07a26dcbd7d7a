"""A limit that owners share: a part for each, turns for those that wait, nothing lost."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.shares import ShareRefused, Shares


async def turns(shares: Shares, *owners: str) -> list[str]:
    """The order in which these owners, who wait in this order, have had their items."""
    had: list[str] = []

    async def use(owner: str) -> None:
        await shares.take(owner)
        had.append(owner)
        await asyncio.sleep(0)
        shares.give_back(owner)

    await asyncio.gather(*map(use, owners))
    return had


async def test_owner_does_not_wait_behind_anothers_queue() -> None:
    shares = Shares(2, 1)
    had = await turns(shares, *["greedy"] * 150, "other")
    assert had.index("other") == 1
    assert shares.used == 0


async def test_owners_that_wait_take_turns() -> None:
    shares = Shares(1, 1)
    had = await turns(shares, "a", "a", "a", "a", "b", "b", "c")
    assert had == ["a", "a", "b", "c", "a", "b", "a"]


async def test_an_item_is_left_for_others() -> None:
    shares = Shares(3, 2)
    assert [shares.try_take("a") for _ in range(3)] == [True, True, False]
    assert shares.try_take("b")
    assert not shares.try_take("c")


async def test_process_itself_may_have_all() -> None:
    shares = Shares(3, 1)
    assert [shares.try_take("") for _ in range(4)] == [True, True, True, False]


async def test_first_amount_of_an_owner_is_granted_whatever_its_part() -> None:
    shares = Shares(100, 10)
    assert shares.try_take("a", 60)
    assert not shares.try_take("a", 1)
    assert not shares.try_take("b", 60)  # more than is left
    shares.give_back("a", 60)
    assert shares.try_take("b", 500)  # more than there is, and nobody has any


async def test_smaller_amount_does_not_overtake_one_that_waits_for_the_whole() -> None:
    shares = Shares(10, 10)
    assert shares.try_take("a", 8)
    waiting = asyncio.ensure_future(shares.take("b", 5))
    await asyncio.sleep(0)
    assert not shares.try_take("c", 1)
    shares.give_back("a", 8)
    await waiting
    assert shares.try_take("c", 1)


async def test_queue_of_an_owner_has_a_bound() -> None:
    shares = Shares(1, 1, waiting_each=2)
    assert shares.try_take("a")
    waiting = [asyncio.ensure_future(shares.take("a")) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(ShareRefused):
        await shares.take("a")
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    shares.give_back("a")
    assert (shares.used, repr(shares)) == (0, "<Shares 0 of 1, 0 owners wait>")


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.integers(0, 3), st.integers(0, 5)),
        max_size=30,
    ),
    st.integers(1, 10),
    st.integers(1, 10),
)
def test_nothing_is_lost_however_waits_end(
    steps: list[tuple[str, int, int, int]], limit: int, each: int
) -> None:
    """Takes that are cancelled at any moment, also at that of their turn, leave nothing behind."""

    async def run() -> None:
        shares = Shares(limit, each)
        most = 0

        async def use(owner: str, amount: int, turns_held: int) -> None:
            nonlocal most
            await shares.take(owner, amount)
            most = max(most, shares.used)
            try:
                for _ in range(turns_held):
                    await asyncio.sleep(0)
            finally:
                shares.give_back(owner, amount)

        tasks = []
        for owner, amount, held, cancelled_after in steps:
            task = asyncio.ensure_future(use(owner, amount, held))
            tasks.append(task)
            if cancelled_after:
                for _ in range(cancelled_after - 1):
                    await asyncio.sleep(0)
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (shares.used, len(shares._waiting), shares._used) == (0, 0, {})
        assert most <= max(limit, 6)

    asyncio.run(run())

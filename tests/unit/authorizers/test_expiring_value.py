"""A value that expires."""

import asyncio

import pytest

from channels.authorizers import refreshing
from channels.authorizers.refreshing import Refreshing
from channels.errors import CredentialsUnavailable


class Source:
    """Counts its fetches; each waits for `gate`, and fails while `failure` is set."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.fetches = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure = ""
        self.notices: list[str] = []
        self.value: Refreshing[int] = Refreshing(
            lambda failure: self.notices.append(failure.detail), monotonic=lambda: self.time
        )

    async def load(self) -> tuple[int, float]:
        self.fetches += 1
        number = self.fetches
        await self.gate.wait()
        if self.failure:
            raise CredentialsUnavailable(self.failure)
        return number, 3600.0

    async def get(self) -> int:
        return await self.value.get(self.load)

    async def settle(self) -> None:
        """Let a fetch in the background come to its end."""
        for _ in range(3):
            await asyncio.sleep(0)


async def test_all_who_wait_share_one_fetch() -> None:
    source = Source()
    source.gate.clear()
    waiting = [asyncio.ensure_future(source.get()) for _ in range(50)]
    await source.settle()
    waiting[0].cancel()
    source.gate.set()
    assert set(await asyncio.gather(*waiting[1:])) == {1}
    assert source.fetches == 1
    assert await source.get() == 1
    assert source.fetches == 1


async def test_value_is_replaced_ahead_of_its_end_and_nobody_waits() -> None:
    source = Source()
    await source.get()
    source.time += 3600 - refreshing.AHEAD_SECONDS
    source.gate.clear()
    assert [await source.get() for _ in range(5)] == [1] * 5
    await source.settle()
    assert source.fetches == 2
    source.gate.set()
    await source.settle()
    assert await source.get() == 2


async def test_failure_ahead_of_time_is_logged_and_leaves_the_value() -> None:
    source = Source()
    await source.get()
    source.time += 3600 - refreshing.AHEAD_SECONDS
    source.failure = "nobody is there"
    await source.get()
    await source.settle()
    assert (await source.get(), source.fetches) == (1, 2)  # not again at once
    assert source.notices == ["nobody is there"]
    source.time += refreshing.RETRY_SECONDS
    source.failure = ""
    await source.get()
    await source.settle()
    assert await source.get() == 3


async def test_expired_value_is_not_used_and_a_failure_is_everybodys() -> None:
    source = Source()
    await source.get()
    source.time += 3600 - refreshing.MARGIN_SECONDS
    source.failure = "nobody is there"
    found = await asyncio.gather(*(source.get() for _ in range(3)), return_exceptions=True)
    assert [str(one.detail) for one in found if isinstance(one, CredentialsUnavailable)] == [
        "nobody is there"
    ] * 3
    assert source.fetches == 2
    source.failure = ""
    assert await source.get() == 3


async def test_fetch_that_takes_too_long_is_waited_for_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refreshing, "WAIT_SECONDS", 0.0)
    source = Source()
    source.gate.clear()
    with pytest.raises(CredentialsUnavailable) as raised:
        await source.get()
    assert raised.value.detail == "none within 0 seconds"
    source.gate.set()
    await source.settle()
    assert (await source.get(), source.fetches) == (1, 1)


async def test_value_that_was_refused_is_fetched_anew_unless_it_is_new() -> None:
    source = Source()
    await source.get()
    assert not source.value.drop()
    source.time += refreshing.YOUNG_SECONDS
    assert [source.value.drop() for _ in range(3)] == [True] * 3
    assert set(await asyncio.gather(*(source.get() for _ in range(3)))) == {2}

"""Futures that are given up on, each in its time, by one timer."""

from __future__ import annotations

import asyncio

import pytest

from actors.patience import Patience
from tests.support.aio import jump, run


class TooLate(Exception):
    pass


def test_each_is_given_up_on_in_its_time_unless_it_was_answered() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        patience = Patience(100.0, TooLate)
        answered, first, second = (loop.create_future() for _ in range(3))
        patience.watch(answered)
        patience.watch(first)
        answered.set_result(1)
        jump(60.0)
        patience.watch(second)
        jump(50.0)
        with pytest.raises(TooLate):
            await first
        assert (answered.result(), second.done()) == (1, False)
        jump(60.0)
        with pytest.raises(TooLate):
            await second
        assert repr(patience) == "<Patience 100.0 s 0 watched>"

    run(main())

"""Rows of refused calls: so many of an account in a minute, by one process and by several."""

import asyncio
from typing import Any, cast
from uuid import uuid4

import pytest

from actors.limits.limiter import Limiter
from actors.wallet.wallets import Wallets
from channels.registry import Registry
from gw.api.refusals import REFUSALS_RECORDED_MAX, RefusalRate, RefusalRows, RefusedCall
from gw.config.live import LiveConfig
from loadtests.rig.scrape import Page
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.support.logs import logs
from tests.unit.api.fakes import make_principal

LEFT_OUT = "gw_refusals_unrecorded_total"


class Rows:
    """What is written, and what is counted in its place."""

    def __init__(self, limiter: Any = None) -> None:
        self.clock, self.metrics = FakeClock(), Metrics()
        self.written: list[str] = []
        limiter = limiter or Limiter(clock=self.clock)
        self.rate = RefusalRate(limiter=limiter, clock=self.clock)
        self._rows = RefusalRows(
            wallets=cast(Wallets, self),
            current=cast(LiveConfig, self),
            clock=self.clock,
            metrics=self.metrics,
            rate=self.rate,
        )

    registry = Registry.of([], [])

    def record(self, facts: Any, outcome: Any) -> None:
        self.written.append(facts.account_id)

    def refuse(self, count: int, account: str = "acct_1") -> None:
        for _ in range(count):
            refused = RefusedCall(
                call_id=uuid4(),
                principal=make_principal(account_id=account),
                protocol="chat",
                model="m",
                http_status=400,
                error_code="invalid_request",
                error_message="No.",
                submitted_at=self.clock.now(),
            )
            self._rows.record(refused)

    def left_out(self) -> float:
        return self.total(LEFT_OUT)

    def total(self, name: str) -> float:
        page, _ = self.metrics.render("text/plain")
        return Page.parse(page.decode()).total(name)


@logs("refusals_not_recorded")
def test_refused_calls_beyond_the_bound_are_counted() -> None:
    rows = Rows()
    rows.refuse(REFUSALS_RECORDED_MAX)
    assert (len(rows.written), rows.left_out()) == (REFUSALS_RECORDED_MAX, 0)
    rows.refuse(250)
    assert (len(rows.written), rows.left_out()) == (REFUSALS_RECORDED_MAX, 250)
    rows.refuse(3, "acct_2")
    assert rows.written[-3:] == ["acct_2"] * 3
    rows.clock.advance(61.0)
    rows.refuse(2)
    assert (rows.written[-2:], rows.left_out()) == (["acct_1"] * 2, 250)
    assert rows.total("gw_calls_total") == REFUSALS_RECORDED_MAX + 255


class Shared:
    """A keeper of limits that counts for other processes, too; `others` were there before."""

    def __init__(self, others: int) -> None:
        self.count = others

    async def enter(self, name: str, *, rpm: int, concurrency: None) -> Any:
        await asyncio.sleep(0)
        self.count += 1

        class Status:
            refused = "requests per minute" if self.count > rpm else None

        return Status, 0

    def leave(self, name: str, slot: int) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("others", [0, 900, 5000])
@logs("refusals_not_recorded")
async def test_what_other_processes_wrote_counts(others: int) -> None:
    rows = Rows(Shared(others))
    for _ in range(2 * REFUSALS_RECORDED_MAX):
        rows.refuse(1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await rows.rate.close()
    free = max(0, REFUSALS_RECORDED_MAX - others)
    assert free <= len(rows.written) <= free + 3
    assert len(rows.written) + rows.left_out() == 2 * REFUSALS_RECORDED_MAX

"""Which candidates of a chain are leased, and what is said of those that are not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.failover import Failover, FailoverExhausted
from actors.routing import Candidate
from channels.errors import UpstreamUnreachable
from gw.calls.chain import Chain
from tests.support.logs import ExpectLog
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model
from tests.unit.actors.channels import Channels, channels

FAILED = UpstreamUnreachable()


@asynccontextmanager
async def made(places: str, *, slots: int = 10) -> AsyncIterator[tuple[Channels, Failover]]:
    """Candidates written as model and channel: `A1 A2 B1`."""
    order = [Candidate(one[1:], "m", "chat", None, one[0]) for one in places.split()]
    names = dict.fromkeys(one.channel_id for one in order)
    async with channels(*(make_channel(one, max_concurrency=slots) for one in names)) as some:
        yield some, Failover(order, some.directory, None)


def leased(failover: Failover) -> str:
    """Lease one candidate, which fails."""
    candidate, lease = failover.lease()
    lease.release("abandoned")
    failover.add_failed(candidate, FAILED, started_at=0.0, seconds=0.0)
    return candidate.step + candidate.channel_id


@cases(
    "candidates, tried",
    ("A1 A2 A3 B4", "A1 A2 B4"),
    ("A1 A2 A3 B4 C5", "A1 B4 C5"),
    ("A1 A2 A3 B4 C5 D6", "A1 B4 C5"),
    ("A1 B2", "A1 B2"),
    ("A1 B1", "A1 B1"),
    ("A1 A2 B1 B2", "A1 A2 B1"),
    ("A1 A2 A3 A4", "A1 A2 A3"),
)
async def test_each_later_model_keeps_a_try(candidates: str, tried: str) -> None:
    async with made(candidates) as (_, failover):
        assert [leased(failover) for _ in tried.split()] == tried.split()
        with pytest.raises(FailoverExhausted):
            failover.lease()


async def test_channels_passed_by_come_last_where_the_next_model_has_none_free() -> None:
    async with made("A1 A2 A3 B4", slots=1) as (some, failover):
        taken = some.directory["4"].acquire()
        assert [leased(failover) for _ in range(3)] == ["A1", "A2", "A3"]
        assert failover.passed_over == {"4": "full"}
        taken.release("abandoned")  # type: ignore[union-attr]


async def test_skipped_model_is_told_the_rest_only_if_nothing_else_was_there() -> None:
    async with made("A1 B2") as (_, failover):
        for step in "AB":
            candidate, lease = failover.lease()
            assert (candidate.step, failover.takes_losses) == (step, False)
            lease.release("abandoned")
            failover.skip(candidate)
        assert (leased(failover), failover.takes_losses) == ("A1", True)
        assert leased(failover) == "B2"
    async with made("A1 B2") as (_, failover):
        candidate, lease = failover.lease()
        lease.release("abandoned")
        failover.skip(candidate)
        assert leased(failover) == "B2"
        with pytest.raises(FailoverExhausted):
            failover.lease()


async def test_trial_is_of_the_same_model(expect_log: ExpectLog) -> None:
    for action in ("opened", "half_opened"):
        expect_log(f"channel_{action}", required=False)
    for places, expected in (("A1 A2 B3", "A1"), ("A1 A3 B2", "A3")):
        async with made(places) as (some, failover):
            third = some.directory["3"]
            while third.health.state == "closed":
                third.acquire().release("failure")  # type: ignore[union-attr]
            some.clock.advance(1000)
            failover.may_try = True
            assert (leased(failover), failover.is_trial) == (expected, expected == "A3")


BEST = make_model(id="best")


def test_warning_names_the_skipped_and_is_ascii_and_short() -> None:
    made = Chain(BEST, {}, {"ä": ["x"] * 100, "A": ["y"], "B": ["z"]})
    name, warning = made.headers("B")
    assert name == "B"
    assert warning == f"skipped %C3%A4: {', '.join(['x'] * 8)}; skipped A: y"

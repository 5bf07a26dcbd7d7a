"""The loop over candidates: what is a try, what ends it, and where the leases go."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from actors.channel import ChannelLease
from actors.failover import FailedAttempt, Failover, FailoverExhausted
from actors.routing import Candidate
from channels.deadlines import TimeLimits
from channels.errors import NoFileLeft, UpstreamError, UpstreamTimedOut, UpstreamUnreachable
from channels.registry import ChannelSpec, HealthSpec
from gw.calls.attempts import Attempts
from gw.calls.observer import CallObserver
from gw.calls.retry import Retry, retry_of_chat
from metrics.prometheus import Metrics
from metrics.spans import UNSAMPLED
from tests.support.logs import logs
from tests.support.specs import make_channel
from tests.unit.actors.channels import Channels, channels, settle

NAMES = ("a", "b", "c", "d", "e")


@dataclass
class Scene:
    """Five channels, what each does when it is tried, and which were tried."""

    channels: Channels
    does: dict[str, Any] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)
    call: Any = field(
        default_factory=lambda: SimpleNamespace(span=UNSAMPLED, demand=None, detail={})
    )
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        observer = CallObserver(self.call, clock=self.channels.clock, metrics=self.metrics)
        self.attempts = Attempts(self.call, observer)

    async def attempt(
        self, call: Any, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> str:
        assert channel.id == candidate.channel_id
        self.tried.append(candidate.channel_id)
        what = self.does.get(candidate.channel_id, "answer")
        if isinstance(what, BaseException):
            self.channels.clock.advance(1.5)
            raise what
        if isinstance(what, asyncio.Event):
            await what.wait()
        return f"{what} of {candidate.upstream_model}"

    def retry(self, error: UpstreamError) -> Retry:
        return retry_of_chat(error)

    async def run(self, *names: str) -> str:
        order = [Candidate(name, f"m-{place}", "chat") for place, name in enumerate(names)]
        failover = Failover(order, self.channels.directory, None)
        return await self.attempts.first_result(self, self.call, failover, TimeLimits(60.0).begin())

    async def exhausted(self, *names: str) -> tuple[Sequence[FailedAttempt], Mapping[str, str]]:
        raised = await self.nothing(*names)
        return raised.failed, raised.passed_over

    async def nothing(self, *names: str) -> FailoverExhausted:
        with pytest.raises(FailoverExhausted) as raised:
            await self.run(*names)
        return raised.value

    def open(self, name: str) -> None:
        """Have its breaker open now."""
        for _ in range(10):
            lease = self.channels.directory[name].acquire()
            assert isinstance(lease, ChannelLease)
            lease.release("failure")

    async def failures(self) -> dict[str, int]:
        """Failures in a row of each channel, all slots being free."""
        found = {}
        for name, actor in self.channels.directory.items():
            await settle(actor)
            assert actor.in_use == 0, actor
            if actor.health.failures:
                found[name] = actor.health.failures
        return found


@asynccontextmanager
async def scene(**does: Any) -> AsyncIterator[Scene]:
    specs = [make_channel(name, max_concurrency=1, health=HealthSpec(10)) for name in NAMES]
    async with channels(*specs) as made:
        yield Scene(made, does)


async def test_first_candidate_that_answers_ends_it_with_its_lease_held() -> None:
    async with scene(a=UpstreamUnreachable("refused")) as s:
        assert await s.run("a", "b", "c") == "answer of m-1"
        assert s.tried == ["a", "b"]
        (failed,) = s.attempts.failed
        assert (failed.seq, failed.channel_id, failed.seconds) == (1, "a", 1.5)
        assert failed.error.__traceback__ is None  # its frames hold the attempts: a cycle
        assert [actor.in_use for actor in s.channels.directory.values()] == [0, 1, 0, 0, 0]
        s.attempts.finish_attempt("success", "ok")
        s.attempts.finish_attempt("failure", "cut")  # the first word counts
        assert await s.failures() == {"a": 1}
        assert [[name, outcome] for name, _, _, outcome in s.call.detail["tried"]] == [
            ["a", "unreachable"],
            ["b", "ok"],
        ]


async def test_want_of_files_is_no_failure_of_a_channel() -> None:
    async with scene(a=NoFileLeft("EMFILE")) as s:
        assert await s.run("a", "b") == "answer of m-1"
        s.attempts.finish_attempt("success", "ok")
        assert await s.failures() == {}


@logs("channel_opened")
async def test_full_open_and_removed_channels_are_passed_over_and_are_no_tries() -> None:
    async with scene(d=UpstreamError(), e=UpstreamError()) as s:
        held = s.channels.directory["a"].acquire()
        assert isinstance(held, ChannelLease)
        s.open("b")
        failed, passed_over = await s.exhausted("a", "b", "gone", "d", "e")
        assert passed_over == {"a": "full", "b": "open", "gone": "removed"}
        assert [attempt.channel_id for attempt in failed] == ["d", "e"]
        held.release("abandoned")


@logs("channel_opened", "channel_half_opened")
async def test_no_answer_says_how_long_all_channels_stay_open() -> None:
    async with scene() as s:
        cooldown = HealthSpec(10).cooldown_seconds
        s.open("a")
        s.channels.clock.advance(cooldown / 4)
        s.open("b")
        assert (await s.nothing("b")).cooldown_seconds == cooldown
        assert (await s.nothing("a", "b")).cooldown_seconds == cooldown * 3 / 4
        held = s.channels.directory["c"].acquire()
        assert isinstance(held, ChannelLease)
        # One that is only full may be free at any moment.
        assert (await s.nothing("a", "b", "c")).cooldown_seconds == 0
        held.release("abandoned")
        s.channels.clock.advance(cooldown * 3 / 4)
        probe = s.channels.directory["a"].acquire()
        assert isinstance(probe, ChannelLease)
        assert (await s.nothing("a", "b")).cooldown_seconds == 0  # nor how long a probe takes
        probe.release("abandoned")
        assert (await s.nothing()).cooldown_seconds == 0


async def test_time_out_ends_the_call_and_counts_against_the_channel() -> None:
    async with scene(a=UpstreamError(), b=UpstreamTimedOut()) as s:
        failed, _ = await s.exhausted(*NAMES)
        assert s.tried == ["a", "b"]
        assert isinstance(failed[-1].error, UpstreamTimedOut)
        assert [attempt.seq for attempt in failed] == [1, 2]
        assert await s.failures() == {"a": 1, "b": 1}


async def test_channel_is_visited_once_however_often_it_is_bound() -> None:
    async with scene(a=UpstreamError()) as s:
        failed, _ = await s.exhausted("a", "a", "a")
        assert len(failed) == 1
        assert s.tried == ["a"]

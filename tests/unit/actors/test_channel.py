"""A channel: its slots, its health, and a machine over both."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.channel import ChannelActor, ChannelLease, Configure, Denied
from actors.circuit_breaker import TRIAL_DOUBLINGS_MAX
from actors.mailbox import ActorStopped
from actors.routing import candidates
from channels.registry import HealthSpec
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.support.logs import logs
from tests.support.specs import make_channel, make_model
from tests.unit.actors.channels import channels, settle

HEALTH = HealthSpec(failures=2, cooldown_seconds=10.0)


@asynccontextmanager
async def channel(slots: int = 2) -> AsyncIterator[tuple[ChannelActor, FakeClock]]:
    async with channels(make_channel("one", max_concurrency=slots, health=HEALTH)) as made:
        yield made.directory["one"], made.clock


def lease(actor: ChannelActor) -> ChannelLease:
    response = actor.acquire()
    assert isinstance(response, ChannelLease), response
    return response


async def give_back(actor: ChannelActor, leased: ChannelLease, verdict: str) -> None:
    leased.release(verdict)  # type: ignore[arg-type]
    await settle(actor)


async def open_breaker(actor: ChannelActor) -> None:
    for _ in range(HEALTH.failures):
        await give_back(actor, lease(actor), "failure")
    assert actor.health.state == "open"


async def test_slots_are_never_exceeded() -> None:
    async with channel(slots=3) as (actor, _):
        responses = [actor.acquire() for _ in range(10)]
        leases = [a for a in responses if isinstance(a, ChannelLease)]
        assert len(leases) == 3
        assert {a for a in responses if isinstance(a, Denied)} == {Denied("full")}
        assert repr(actor) == "<ChannelActor one closed 3/3 slots>"
        await give_back(actor, leases[0], "success")
        assert isinstance(actor.acquire(), ChannelLease)


@logs("channel_opened", "channel_half_opened", "channel_closed")
async def test_failures_in_a_row_open_the_channel_until_its_cooldown_is_over() -> None:
    async with channel() as (actor, clock):
        await give_back(actor, lease(actor), "failure")
        await give_back(actor, lease(actor), "success")  # breaks the row
        await open_breaker(actor)
        clock.advance(9.9)
        assert actor.acquire() == Denied("open")
        clock.advance(0.1)
        probe = lease(actor)
        assert probe.is_probe
        assert actor.acquire() == Denied("open")  # one probe decides
        await give_back(actor, probe, "success")
        assert actor.health.state == "closed"
        assert isinstance(actor.acquire(), ChannelLease)


async def test_lease_comes_back_without_error_when_the_process_has_stopped() -> None:
    async with channel() as (actor, _):
        held = lease(actor)
        await asyncio.sleep(0)  # the actor has begun: it stops when it is told to
    held.release("success")
    with pytest.raises(ActorStopped):
        actor.acquire()


@logs("channel_key_refused")
async def test_refused_key_is_counted_each_time_and_logged_once() -> None:
    async with channels(make_channel("one", more_keys=("key-number-2",))) as made:
        made.directory["one"].spec.ring.keys[1].refused(402)
        made.directory["one"].spec.ring.keys[1].refused(402)
        ((line, count),) = made.samples("gw_channel_key_refusals_total", "one").items()
        assert ('key="2",status="402"' in line, count) == (True, 2.0)
        # Also after a reload, which tries every key again.
        made.configure(make_channel("one", more_keys=("key-number-3",)))
        await settle(made.directory["one"])
        assert made.directory["one"].spec.ring.aside == 0
        made.directory["one"].spec.ring.keys[1].refused(402)
        assert sum(made.samples("gw_channel_key_refusals_total", "one").values()) == 3.0


async def test_rest_of_a_key_is_counted_once_until_it_ends() -> None:
    spec = make_channel("one", more_keys=("key-number-2",), hops_when_throttled=True)
    async with channels(spec) as made:
        spec.ring.tell_time_by(made.clock.monotonic)
        for seconds, rests in ((0.0, 1.0), (29.0, 1.0), (31.0, 2.0)):
            made.clock.advance(seconds)
            spec.ring.keys[1].throttled("30")
            ((line, count),) = made.samples("gw_channel_key_rests_total", "one").items()
            assert ('key="2"' in line, count) == (True, rests)
        actor = made.directory["one"]
        made.configure()
        await settle(actor)
        assert not made.samples("gw_channel_key_rests_total", "one")


FAILURES, COOLDOWN = 2, 10.0
MACHINE_HEALTH = HealthSpec(failures=FAILURES, cooldown_seconds=COOLDOWN)
METRICS = Metrics()  # one for all: making it takes longer than an example


class ChannelMachine(RuleBasedStateMachine):
    """The model: leases that are out, failures in a row, until when it is open, the probe."""

    def __init__(self) -> None:
        super().__init__()
        logging.getLogger("actors.channel").disabled = True
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.runner.run(self._begin())
        self.slots = 2
        self.held: list[ChannelLease] = []
        self.failures = 0
        self.open_until: float | None = None  # None: closed
        self.probe: ChannelLease | None = None
        self.trials, self.trial_at = 0, 0.0

    async def _begin(self) -> None:
        spec = make_channel("one", max_concurrency=2, health=MACHINE_HEALTH)
        self.actor = ChannelActor(spec, clock=self.clock, metrics=METRICS)
        self.task = asyncio.create_task(self.actor.run())

    def teardown(self) -> None:
        for lease in self.held:
            lease.release("success")
        self.runner.run(settle(self.actor))
        assert self.actor.in_use == 0
        self.task.cancel()
        self.runner.run(asyncio.sleep(0))
        self.runner.close()
        logging.getLogger("actors.channel").disabled = False

    def expected(self) -> str:
        if self.open_until is not None:
            is_cool = self.clock.monotonic() >= self.open_until
            if self.probe is not None or not is_cool:
                return "open"
        return "full" if len(self.held) >= self.slots else "lease"

    def note_verdict(self, verdict: str, *, was_probe: bool) -> None:
        if self.open_until is None:
            if verdict == "success":
                self.failures = 0
            elif verdict == "failure":
                self.failures += 1
                if self.failures == FAILURES:
                    self.open_until = self.clock.monotonic() + COOLDOWN
        elif was_probe:
            self.probe = None
            if verdict == "success":
                self.open_until, self.failures = None, 0
                self.trials, self.trial_at = 0, 0.0
            elif verdict == "failure":
                self.open_until = self.clock.monotonic() + COOLDOWN

    @rule()
    def acquire(self) -> None:
        expected = self.expected()
        response = self.actor.acquire()
        if expected == "lease":
            assert isinstance(response, ChannelLease)
            assert response.is_probe == (self.open_until is not None)
            self.hold(response)
        else:
            assert response == Denied(expected)  # type: ignore[arg-type]

    def hold(self, lease: ChannelLease) -> None:
        self.held.append(lease)
        if lease.is_probe:
            self.probe = lease

    @rule()
    def try_out(self) -> None:
        """A trial is granted where a probe would be and the last one's rest is over."""
        self.runner.run(settle(self.actor))
        now = self.clock.monotonic()
        is_due = self.open_until is not None and now >= self.trial_at
        lease = self.actor.try_trial()
        assert (lease is not None) == (is_due and self.expected() == "lease")
        if lease is not None:
            assert lease.is_probe
            self.trial_at = now + COOLDOWN * 2**self.trials
            self.trials = min(self.trials + 1, TRIAL_DOUBLINGS_MAX)
            self.hold(lease)

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        verdict=st.sampled_from(["success", "failure", "failure", "abandoned"]),
        twice=st.booleans(),
    )
    def release(self, data: st.DataObject, verdict: str, twice: bool) -> None:
        lease = data.draw(st.sampled_from(self.held))
        self.held.remove(lease)
        lease.release(verdict)  # type: ignore[arg-type]
        if twice:
            lease.release("failure")
        self.runner.run(settle(self.actor))
        self.note_verdict(verdict, was_probe=lease is self.probe)

    @rule(seconds=st.sampled_from([0.5, 5.0, COOLDOWN]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(slots=st.integers(min_value=1, max_value=3))
    def configure(self, slots: int) -> None:
        """It may wait to be handled when the next message comes."""
        self.slots = slots
        self.actor.tell(
            Configure(make_channel("one", max_concurrency=slots, health=MACHINE_HEALTH))
        )

    @invariant()
    def slots_in_use_are_the_leases_that_are_out(self) -> None:
        assert self.actor.in_use == len(self.held)

    @invariant()
    def breaker_is_as_the_model_says(self) -> None:
        assert (self.actor.health.state == "closed") == (self.open_until is None)
        assert self.actor.health.is_probing == (self.probe is not None)


TestChannelMachine = ChannelMachine.TestCase
TestChannelMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


async def test_channels_take_turns_by_who_has_waited_longest_and_a_rest_ends_last() -> None:
    specs = [make_channel(name, hops_when_throttled=True) for name in "abc"]
    async with channels(*specs) as made:

        def leased() -> str:
            first = candidates(make_model("a", "b", "c"), "chat", made.directory)[0].channel_id
            lease = made.directory[first].acquire()
            assert isinstance(lease, ChannelLease)
            lease.release("success")
            made.clock.advance(1.0)
            return first

        assert [leased() for _ in range(4)] == ["a", "b", "c", "a"]
        ring = made.directory["b"].spec.ring
        ring.__dict__["_monotonic"] = made.clock.monotonic
        ring.keys[0].throttled("3")
        assert [leased() for _ in range(3)] == ["c", "a", "c"]
        assert [leased() for _ in range(4)] == ["a", "c", "b", "a"]

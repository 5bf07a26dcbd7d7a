"""A channel under any sequence of leases, verdicts, configurations and time, against a model."""

from __future__ import annotations

import asyncio
import logging

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.channel import TRIAL_DOUBLINGS_MAX, ChannelActor, Configure, Denied, Lease
from channels.registry import HealthSpec
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.support.specs import make_channel
from tests.unit.actors.channels import settle

FAILURES, COOLDOWN = 2, 10.0
HEALTH = HealthSpec(failures=FAILURES, cooldown_seconds=COOLDOWN)
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
        self.held: list[Lease] = []
        self.failures = 0
        self.open_until: float | None = None  # None: closed
        self.probe: Lease | None = None
        self.trials, self.trial_at = 0, 0.0

    async def _begin(self) -> None:
        spec = make_channel("one", max_concurrency=2, health=HEALTH)
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

    # The model

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

    # Rules

    @rule()
    def acquire(self) -> None:
        expected = self.expected()
        answer = self.actor.try_acquire()
        if answer is None:
            answer = self.runner.run(self.actor.acquire())
        if expected == "lease":
            assert isinstance(answer, Lease)
            assert answer.is_probe == (self.open_until is not None)
            self.hold(answer)
        else:
            assert answer == Denied(expected)  # type: ignore[arg-type]

    def hold(self, lease: Lease) -> None:
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
        self.actor.tell(Configure(make_channel("one", max_concurrency=slots, health=HEALTH)))

    # What always holds

    @invariant()
    def slots_in_use_are_the_leases_that_are_out(self) -> None:
        assert self.actor.in_use == len(self.held)

    @invariant()
    def breaker_is_as_the_model_says(self) -> None:
        assert (self.actor.health.state == "closed") == (self.open_until is None)
        assert self.actor.health.is_probing == (self.probe is not None)


TestChannelMachine = ChannelMachine.TestCase
TestChannelMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)

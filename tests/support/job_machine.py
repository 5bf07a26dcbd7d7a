"""One job, a hostile upstream, an operator and two processes that may die, as a state machine.

Hypothesis runs it on an in-memory twin of the tables and on PostgreSQL. What a poll sees is decided
when it is asked and may be booked much later, by a process that has lost its claim since. However
they meet, the job ends once, with one row, one settlement or one full refund, and what its client
is shown never goes back.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from actors.jobs.job import State
from actors.jobs.state_machine import (
    Cancel,
    End,
    Observation,
    TimedOut,
    Unreachable,
    Watch,
    observe,
)
from actors.jobs.store import Booked, Claimed
from channels.media.replies import NotFound, RateLimited, Trouble
from tests.support.jobs import polled
from tests.support.ledger_machine import STEPS_BETWEEN_PROOFS

HOLD, BALANCE = 500_000_000, 10_000_000_000
CLAIM_SECONDS, PAUSE_SECONDS, DEADLINE_SECONDS = 15.0, 5.0, 3600.0
ENDS = ("succeeded", "failed", "expired", "cancelled")
RANK = {"submitting": 0, "queued": 1, "running": 2, **dict.fromkeys(ENDS, 3)}

running = st.builds(lambda n: polled("running", progress=n), st.integers(0, 100))
silence = st.sampled_from(
    [
        polled("queued"),
        polled("queued"),
        polled(None),
        NotFound(),
        Trouble(reason="500", status=500),
        TimedOut(),
        Unreachable(reason="no"),
        RateLimited(retry_after_seconds=300.0),
    ]
)
ends = st.one_of(
    st.sampled_from([polled("failed"), polled("cancelled"), polled("expired")]),
    st.builds(lambda ms: polled("succeeded", seconds_ms=ms), st.integers(1, 60_000) | st.none()),
)
observations = st.one_of(running, silence)
# Most of what is said ends nothing, or no job would live long enough to be fought over.
rarely = st.sampled_from([False] * 9 + [True])
processes = st.sampled_from(["proc_a", "proc_b"])


class JobMachine(RuleBasedStateMachine):
    """Subclasses say how a job is begun, claimed, booked and ended, and how time passes."""

    polls: Bundle[tuple[Claimed, Observation]] = Bundle("polls")

    def __init__(self) -> None:
        super().__init__()
        self.claims = 0
        self.seen: list[State] = ["submitting"]
        self.ended: End | None = None
        self.cost = 0
        self.winners = 0
        self.is_accepted = False
        self.is_failed = False  # before any upstream had accepted it
        self.steps = 0

    def begin(self) -> None:
        """Hold its money in the name of `proc_a`."""
        raise NotImplementedError

    def accept(self) -> bool:
        raise NotImplementedError

    def recover(self) -> None:
        """Its process is declared dead."""
        raise NotImplementedError

    def claim(self, claim_id: str, *, limit: int = 8) -> list[Claimed]:
        raise NotImplementedError

    def book(self, booked: Booked) -> None:
        raise NotImplementedError

    def end(self, end: End) -> int | None:
        """What it cost, in nano-USD; None when it had ended."""
        raise NotImplementedError

    def pass_time(self, seconds: float) -> None:
        raise NotImplementedError

    def look(self) -> tuple[State, int | None]:
        """State and progress."""
        raise NotImplementedError

    def money(self) -> tuple[int, int]:
        """Balance and held."""
        raise NotImplementedError

    def row_costs(self) -> list[int]:
        """Of each row of its call."""
        raise NotImplementedError

    def faults(self) -> list[Any]:
        raise NotImplementedError

    @initialize(is_slow=rarely)
    def submit(self, is_slow: bool) -> None:
        self.begin()
        if not is_slow:
            self.upstream_accepts()

    @precondition(lambda self: not self.is_failed)
    @rule()
    def upstream_accepts(self) -> None:
        """Also a second time: the answer was lost."""
        assert self.accept()
        self.is_accepted = True

    @rule(is_so=rarely)
    def process_is_taken_for_dead(self, is_so: bool) -> None:
        """A job that is not accepted yet fails; any other goes on."""
        if not is_so:
            return
        self.recover()
        if not self.is_accepted:
            self.is_failed = True
            assert not self.accept()

    @rule(
        target=polls,
        process=processes,
        seen=observations,
        meanwhile=observations,
        ending=ends,
        is_over=rarely,
        fate=st.sampled_from(["at once", "at once", "taken over", "taken over", "late"]),
    )
    def poll(
        self,
        process: str,
        seen: Observation,
        meanwhile: Observation,
        ending: Observation,
        is_over: bool,
        fate: str,
    ) -> Any:
        """Claim what is due, and hear what its upstream says at this moment.

        It is booked at once; or when the claim has run out, and another process has polled the job
        and was quicker; or much later, or never: its process dies over it.
        """
        seen = ending if is_over else seen
        claimed = [(one, seen) for one in self._claim(process)]
        if fate == "late":
            return multiple(*claimed)
        if fate == "taken over":
            self.pass_time(CLAIM_SECONDS)
            for one in self._claim("proc_b"):
                self._comes_home(one, meanwhile)
        for poll in claimed:
            self._comes_home(*poll)
        return multiple()

    @rule(poll=consumes(polls))
    def slow_poll_comes_home(self, poll: tuple[Claimed, Observation]) -> None:
        """However late: what ends the job ends it, unless it has ended."""
        self._comes_home(*poll)

    @precondition(lambda self: self.is_accepted)
    @rule(is_so=rarely, is_really=rarely)
    def operator_cancels(self, is_so: bool, is_really: bool) -> None:
        if not (is_so and is_really):
            return
        step = observe("video", _watch(self.look()), Cancel(), is_overdue=False)
        assert step.end is not None
        self._end(step.end)

    @rule(seconds=st.sampled_from([1.0, PAUSE_SECONDS, CLAIM_SECONDS, DEADLINE_SECONDS]))
    def time_passes(self, seconds: float) -> None:
        self.pass_time(seconds)

    def teardown(self) -> None:
        """Nothing is forgotten: after a claim or a pause, who looks finds an open job due."""
        assert self.faults() == []
        self.pass_time(301.0)
        is_open = self.is_accepted and self.ended is None
        assert len(self._claim("proc_a")) == is_open

    @invariant()
    def state_never_goes_back_and_an_end_never_changes(self) -> None:
        state, _ = self.look()
        before = self.seen[-1]
        assert RANK[state] >= RANK[before]
        if before in ENDS:
            assert state == before
        self.seen.append(state)
        assert (state in ENDS) == (self.ended is not None or self.is_failed)
        if self.ended is not None:
            assert state == self.ended.state

    @invariant()
    def money_is_held_until_it_is_settled_or_refunded_once(self) -> None:
        is_over = self.ended is not None or self.is_failed
        assert self.money() == (BALANCE - self.cost, 0 if is_over else HOLD)
        assert self.row_costs() == ([self.cost] if is_over else [])

    @invariant()
    def everything_adds_up(self) -> None:
        self.steps += 1
        if self.steps % STEPS_BETWEEN_PROOFS == 0:
            assert self.faults() == []

    def _comes_home(self, claimed: Claimed, seen: Observation) -> None:
        step = observe(claimed.kind, claimed.watch, seen, is_overdue=claimed.is_overdue)
        if step.end is not None:
            self._end(step.end)
            return
        pause = step.retry_after_seconds or PAUSE_SECONDS
        self.book(Booked(claimed=claimed, watch=step.watch, pause_seconds=pause))
        self.state_never_goes_back_and_an_end_never_changes()

    def _claim(self, process: str) -> list[Claimed]:
        """Claim the job, when it is due after a pause."""
        self.pass_time(PAUSE_SECONDS)
        self.claims += 1
        claimed = self.claim(f"{process}/{self.claims}")
        assert len(claimed) <= 1
        return claimed

    def _end(self, end: End) -> None:
        cost = self.end(end)
        assert (cost is not None) == (self.ended is None)
        if cost is not None:
            self.ended, self.cost = end, cost
            assert (cost > 0) == (end.state == "succeeded")


def _watch(look: tuple[State, int | None]) -> Watch:
    state, progress = look
    return Watch(state="running" if state == "running" else "queued", progress=progress)

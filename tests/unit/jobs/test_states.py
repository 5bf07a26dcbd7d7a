"""The states of a job, and a machine over them."""

from dataclasses import dataclass, field
from typing import Any, get_args

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.jobs.job import OpenState, State
from actors.jobs.pace import (
    BUSY_POLLS_MAX,
    BUSY_POLLS_PER_SECOND,
    LATE_SECONDS,
    WORKING_SHARE,
    Pace,
)
from actors.jobs.schedule import Schedule
from actors.jobs.settlement import settlement_of
from actors.jobs.state_machine import (
    ENDS,
    LOGGED_EVERY,
    ROW_STATUS,
    Cancel,
    End,
    Gone,
    Observation,
    TimedOut,
    Unreachable,
    Watch,
    observe,
    outcome_of,
)
from actors.jobs.store import Booked, Claimed
from channels.media.model import TASK_KINDS, TaskKind
from channels.media.replies import NotFound, RateLimited, TaskError, Trouble, Unusable
from tests.support.job_machine import BALANCE, CLAIM_SECONDS, DEADLINE_SECONDS, HOLD, JobMachine
from tests.support.jobs import CHANNEL, FILM, polled
from tests.support.rows import cases, each
from tests.unit.jobs.test_settlement import opened

OURS = TaskError(code="no_result", message="x")
# What follows from each observation in each open state: the next state, the code of its error
# (None: it is open, or has succeeded), and whether the upstream is asked to give up.
Follows = tuple[str, str | None, bool]
OPEN: tuple[OpenState, ...] = get_args(OpenState)[1:]
SILENCE: list[Observation] = [
    polled(None),
    RateLimited(),
    NotFound(),
    Trouble(reason="500", status=500),
    TimedOut(),
    Unreachable(reason="no"),
    Gone(),
]
ENDED: list[tuple[Observation, Follows]] = [
    (polled("succeeded"), ("succeeded", None, False)),
    (polled("failed"), ("failed", "blocked", False)),
    (polled("failed", error=OURS), ("failed", "no_result", False)),
    (polled("cancelled"), ("cancelled", "blocked", False)),
    (polled("expired"), ("expired", "blocked", False)),
    (Cancel(), ("cancelled", "task_cancelled", True)),
    (Unusable(reason="too large"), ("failed", "upstream_error", True)),
]
CASES: list[tuple[Observation, str, Follows]] = [
    (polled("queued"), "queued", ("queued", None, False)),
    (polled("queued"), "running", ("running", None, False)),
    (polled("running"), "queued", ("running", None, False)),
    (polled("running"), "running", ("running", None, False)),
    *((seen, state, (state, None, False)) for seen in SILENCE for state in OPEN),
    *((seen, state, follows) for seen, follows in ENDED for state in OPEN),
]


@each("seen, state, follows", CASES)
@each("kind", TASK_KINDS)
@each("is_overdue", [False, True])
def test_every_observation_in_every_state(
    seen: Observation, state: Any, follows: Follows, kind: TaskKind, is_overdue: bool
) -> None:
    expected, code, asks_to_cancel = follows
    step = observe(kind, Watch(state=state), seen, is_overdue=is_overdue)
    if code is None and expected != "succeeded" and is_overdue:
        expected, code, asks_to_cancel = "expired", "task_expired", not isinstance(seen, Gone)
    if kind in ("speech", "avatar") and expected in ("expired", "cancelled"):
        expected = "failed"
    if step.end is None:
        assert (step.watch.state, code) == (expected, None)
        return
    found = None if step.end.error is None else step.end.error.code
    assert (step.end.state, found, step.end.asks_to_cancel) == (expected, code, asks_to_cancel)
    assert (step.end.result == FILM) == (expected == "succeeded")


def test_third_time_in_a_row_that_a_task_is_not_known_it_is_lost() -> None:
    watch = Watch()
    for seen in (NotFound(), NotFound(), TimedOut(), NotFound(), NotFound()):
        step = observe("video", watch, seen, is_overdue=False)
        assert step.end is None
        watch = step.watch
    end = observe("video", watch, NotFound(), is_overdue=False).end
    assert end is not None
    assert (end.state, end.error) == ENDS["lost"]
    # Overdue or not: what the upstream says comes first.
    assert observe("video", watch, NotFound(), is_overdue=True).end == end


def test_failures_in_a_row_are_logged_first_and_every_tenth_time() -> None:
    watch, logged = Watch(), []
    for number in range(1, 32):
        step = observe("video", watch, TimedOut(), is_overdue=False)
        watch = step.watch
        if step.logs is not None:
            logged.append(number)
    assert logged == [1, *range(LOGGED_EVERY, 32, LOGGED_EVERY)]
    assert observe("video", watch, polled("running"), is_overdue=False).watch.failures == 0


def test_unknown_word_is_logged_once_a_job_and_keeps_what_was_known() -> None:
    watch = Watch(state="running", progress=30, failures=4)
    first = observe("music", watch, polled(None), is_overdue=False)
    assert (first.logs, first.watch.state, first.watch.progress) == (
        "task_status_unknown",
        "running",
        30,
    )
    later = observe("music", first.watch, TimedOut(), is_overdue=False)
    assert observe("music", later.watch, polled(None), is_overdue=False).logs is None


def test_progress_is_the_last_that_was_said() -> None:
    watch = observe("video", Watch(), polled("running", progress=70), is_overdue=False).watch
    watch = observe("video", watch, polled("running"), is_overdue=False).watch
    assert watch.progress == 70
    assert observe("video", watch, polled("queued", progress=20), is_overdue=False).watch == Watch(
        state="running", progress=20
    )


def test_retry_after_is_kept_for_the_schedule() -> None:
    step = observe("video", Watch(), RateLimited(retry_after_seconds=7.0), is_overdue=False)
    assert step.retry_after_seconds == 7.0
    assert step.watch.failures == 1


def test_every_poll_has_its_outcome_and_every_end_its_row() -> None:
    outcomes = {outcome_of(seen) for seen, _, _ in CASES}
    words = {"ok", "rate_limited", "not_found", "error", "timeout", "unreachable"}
    assert outcomes == {*words, None}
    assert ROW_STATUS == {
        "succeeded": "success",
        "failed": "error",
        "expired": "interrupted",
        "cancelled": "interrupted",
    }


# --- The life of one job on an in-memory twin of its tables ---


@dataclass
class Row:
    """What `job_polls` keeps of an open job."""

    due_at: float
    deadline_at: float
    leased_by: str | None = None
    polls: int = 0
    watch: Watch = field(default_factory=Watch)


class FakeJobMachine(JobMachine):
    """One row of each table; whatever is said to it takes effect at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.state: State = "submitting"
        self.progress: int | None = None
        self.row: Row | None = None
        self.held = 0
        self.costs: list[int] = []

    def begin(self) -> None:
        self.held = HOLD

    def accept(self) -> bool:
        if self.state == "submitting":
            self.state = "queued"
            self.row = Row(due_at=self.now, deadline_at=DEADLINE_SECONDS)
            return True
        return not self.is_failed

    def recover(self) -> None:
        if self.state == "submitting":
            self.state, self.held = "failed", 0
            self.costs.append(0)

    def claim(self, claim_id: str, *, limit: int = 8) -> list[Claimed]:
        row = self.row
        if row is None or row.due_at > self.now:
            return []
        before, row.leased_by, row.due_at = row.leased_by, claim_id, self.now + CLAIM_SECONDS
        return [
            Claimed(
                job_id="vid_1",
                claim_id=claim_id,
                kind="video",
                account_id="acct_a",
                model="m",
                channel_id=CHANNEL,
                upstream_protocol="videos",
                upstream_id="up_1",
                polls=row.polls,
                watch=row.watch,
                taken_from=before,
                lag_seconds=0.0,
                is_overdue=row.deadline_at <= self.now,
            )
        ]

    def book(self, booked: Booked) -> None:
        row = self.row
        if row is None or row.leased_by != booked.claimed.claim_id:
            return
        row.leased_by, row.watch, row.polls = None, booked.watch, row.polls + 1
        row.due_at = max(self.now, min(self.now + booked.pause_seconds, row.deadline_at))
        self.state, self.progress = booked.watch.state, booked.watch.progress

    def end(self, end: End) -> int | None:
        if self.row is None:
            return None
        outcome, _ = settlement_of(
            opened(),
            end,
            now=1.0,
            by="me",
            redact=str,
            content_link=lambda *_: "",
            upstream_cost=lambda *_: None,
        )
        self.row, self.state, self.held = None, end.state, 0
        self.costs.append(outcome.cost_nano_usd)
        return outcome.cost_nano_usd

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def look(self) -> tuple[State, int | None]:
        return self.state, self.progress

    def money(self) -> tuple[int, int]:
        return BALANCE - sum(self.costs), self.held

    def row_costs(self) -> list[int]:
        return self.costs

    def faults(self) -> list[Any]:
        return []


TestJobMachine = FakeJobMachine.TestCase
TestJobMachine.settings = hypothesis.settings(
    max_examples=100, stateful_step_count=50, deadline=None
)


# --- Pauses between polls, and how many a process begins while its calls wait ---

SCHEDULE = Schedule(first_seconds=2.0, factor=1.5, max_seconds=15.0)
seconds = st.floats(0.001, 86_400.0)


def test_pauses_grow_up_to_the_longest() -> None:
    pauses = [round(SCHEDULE.pause_seconds(polls, 0.5), 3) for polls in range(8)]
    assert pauses == [2.0, 3.0, 4.5, 6.75, 10.125, 15.0, 15.0, 15.0]


def test_chance_moves_a_pause_by_a_fifth_and_never_what_an_upstream_asked_for() -> None:
    assert SCHEDULE.pause_seconds(0, 0.0) == pytest.approx(1.6)
    assert SCHEDULE.pause_seconds(0, 0.999_999) == pytest.approx(2.4, abs=1e-5)
    assert SCHEDULE.pause_seconds(9, 0.0, retry_after_seconds=40.0) == 40.0
    assert SCHEDULE.pause_seconds(9, 1.0, retry_after_seconds=40.0) == 48.0


@given(
    first=seconds,
    factor=st.floats(1.0, 1000.0),
    longest=seconds,
    polls=st.integers(0, 2**31 - 1),
    chance=st.floats(0.0, 1.0, exclude_max=True),
)
def test_any_schedule_gives_a_pause_within_its_bounds(
    first: float, factor: float, longest: float, polls: int, chance: float
) -> None:
    schedule = Schedule(first_seconds=first, factor=factor, max_seconds=longest)
    pause = schedule.pause_seconds(polls, chance)
    least = first if polls == 0 else min(first, longest)
    most = first if polls == 0 else longest
    assert least * 0.799 <= pause <= most * 1.201


@cases("late, share", (10 * LATE_SECONDS, 0.0), (0.0, 2 * WORKING_SHARE))
def test_free_process_begins_what_is_due_and_a_busy_one_a_few(late: float, share: float) -> None:
    pace = Pace()
    assert pace.grant(1000, now=0.0) == 1000
    now = worked = 0.0
    for _ in range(100):
        now, worked = now + 0.02, worked + 0.02 * share
        pace.measured(late=late, worked=worked, now=now)
    assert pace.is_busy
    begun, since = 0, now
    pace.grant(0, now)
    while now < since + 10.0:
        granted = pace.grant(1000, now)
        pace.began(granted)
        begun += granted
        now += 0.05
    assert begun == pytest.approx(10 * BUSY_POLLS_PER_SECOND + BUSY_POLLS_MAX, rel=0.05)
    for _ in range(100):
        now += 0.02
        pace.measured(late=0.0, worked=worked, now=now)
    assert pace.grant(1000, now) == 1000

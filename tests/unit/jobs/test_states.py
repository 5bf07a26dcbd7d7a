"""The states of a job, and a machine over them."""

from typing import Any, get_args

from actors.jobs.job import OpenState
from actors.jobs.state_machine import (
    ENDS,
    LOGGED_EVERY,
    ROW_STATUS,
    Cancel,
    Gone,
    Observation,
    TimedOut,
    Unreachable,
    Watch,
    observe,
    outcome_of,
)
from channels.media.model import TASK_KINDS, TaskKind
from channels.media.replies import NotFound, RateLimited, TaskError, Trouble, Unusable
from tests.support.jobs import FILM, polled
from tests.support.rows import each

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


def test_progress_is_the_last_that_was_stated() -> None:
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

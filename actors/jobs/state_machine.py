"""The state table of a job: observations and their consequences.

Sans I/O: no clock, socket or database. A job is `queued` when its upstream accepts it, `running`
when a poll reports so, and ends once, by the table `ENDS` or by the state that the upstream
reports. No state follows an end.

    observed                           follows
    Polled queued / running            that state; never back from running
    Polled succeeded                   succeeded
    Polled failed                      failed, with the upstream's code, or no_result
    Polled cancelled / expired         cancelled / expired
    Polled by an unknown word          nothing but a line in the log, one for each job
    RateLimited                        nothing; polled again when the upstream allows
    NotFound                           nothing; failed at the third in a row
    Unusable                           failed, with upstream_error
    Trouble, and TimedOut, Unreachable nothing
    any of these past the deadline     what ends it ends it, else expired
    Cancel                             cancelled

Speech and avatars know no cancelled and no expired: they have failed, with those codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from msgspec import Struct

from actors.jobs.job import OpenState
from actors.wallet.messages import EndState, RowStatus
from channels.media import replies, results
from channels.media.model import TaskKind

NOT_FOUND_MAX = 3
# Of consecutive failed polls, the first and then every tenth is logged.
LOGGED_EVERY = 10


class TimedOut(Struct, frozen=True):
    """The upstream did not respond to the poll in time."""


class Unreachable(Struct, frozen=True, kw_only=True):
    """There was no response: no connection, or it was lost. `reason` is for the log."""

    reason: str


class Cancel(Struct, frozen=True):
    """An operator cancels the job."""


class Gone(Struct, frozen=True):
    """The job's channel is not in the configuration: it cannot be polled."""


Observation: TypeAlias = replies.PollReply | TimedOut | Unreachable | Gone | Cancel
# Values of the label `outcome` of `gw_task_polls_total`.
PollOutcome: TypeAlias = Literal[
    "ok", "rate_limited", "not_found", "error", "timeout", "unreachable"
]
EndReason: TypeAlias = Literal["lost", "unusable", "expired", "cancelled"]

ENDS: Mapping[EndReason, tuple[EndState, replies.TaskError]] = MappingProxyType(
    {
        "lost": (
            "failed",
            replies.TaskError(
                code="upstream_task_lost", message="The upstream does not know the task."
            ),
        ),
        "unusable": (
            "failed",
            replies.TaskError(
                code="upstream_error", message="The upstream's answer cannot be used."
            ),
        ),
        "expired": (
            "expired",
            replies.TaskError(code="task_expired", message="The task was not finished in time."),
        ),
        "cancelled": (
            "cancelled",
            replies.TaskError(code="task_cancelled", message="The task was cancelled."),
        ),
    }
)
# The kinds that can only end with a result or as failed.
ONLY_FAIL: frozenset[TaskKind] = frozenset({"speech", "avatar"})
ROW_STATUS: Mapping[EndState, RowStatus] = MappingProxyType(
    {
        "succeeded": "success",
        "failed": "error",
        "expired": "interrupted",
        "cancelled": "interrupted",
    }
)


class Watch(Struct, frozen=True, kw_only=True):
    """The data kept of an open job from one observation to the next."""

    state: OpenState = "queued"
    progress: int | None = None
    failures: int = 0  # consecutive polls without a state
    not_found: int = 0  # consecutive
    has_logged_unknown: bool = False  # an unknown state was logged


class End(Struct, frozen=True, kw_only=True):
    """The end of a job. `asks_to_cancel`: the upstream may still be working on it."""

    state: EndState
    result: results.TaskResult | None = None
    seconds_ms: int | None = None
    error: replies.TaskError | None = None
    asks_to_cancel: bool = False


class Step(Struct, frozen=True, kw_only=True):
    """The consequence of an observation: an updated watch, or an end.

    `retry_after_seconds`: not polled earlier. `logs`: the event to log.
    """

    watch: Watch
    end: End | None = None
    retry_after_seconds: float | None = None
    logs: Literal["task_poll_failed", "task_status_unknown"] | None = None


def observe(kind: TaskKind, watch: Watch, seen: Observation, *, is_overdue: bool) -> Step:
    """Return the next step of an open job; `is_overdue`: the poll was past its deadline."""
    if isinstance(seen, Cancel):
        return Step(watch=watch, end=ended_as(kind, "cancelled", asks_to_cancel=True))
    if isinstance(seen, replies.Unusable):
        end = ended_as(kind, "unusable", asks_to_cancel=True)
        return Step(watch=watch, end=end, logs="task_poll_failed")
    step = (
        _polled(kind, watch, seen)
        if isinstance(seen, replies.Polled)
        else _silent(kind, watch, seen)
    )
    if is_overdue and step.end is None:
        can_ask = not isinstance(seen, Gone)
        return Step(watch=watch, end=ended_as(kind, "expired", asks_to_cancel=can_ask))
    return step


def outcome_of(seen: Observation) -> PollOutcome | None:
    """Return the metrics label of a poll; None if the upstream was not polled."""
    if isinstance(seen, Cancel | Gone):
        return None
    return _OUTCOMES[type(seen)]


_OUTCOMES: Mapping[type, PollOutcome] = MappingProxyType(
    {
        replies.Polled: "ok",
        replies.RateLimited: "rate_limited",
        replies.NotFound: "not_found",
        replies.Trouble: "error",
        replies.Unusable: "error",
        TimedOut: "timeout",
        Unreachable: "unreachable",
    }
)


def ended_as(kind: TaskKind, ending: EndReason, *, asks_to_cancel: bool = False) -> End:
    """Return the end for this reason in a kind."""
    state, error = ENDS[ending]
    return End(state=_state_in(kind, state), error=error, asks_to_cancel=asks_to_cancel)


def _state_in(kind: TaskKind, state: EndState) -> EndState:
    return "failed" if kind in ONLY_FAIL and state != "succeeded" else state


def _polled(kind: TaskKind, watch: Watch, seen: replies.Polled) -> Step:
    """Handle a reported state of the task, which may be unknown."""
    is_unknown = seen.state is None
    heard = Watch(
        state="running" if seen.state == "running" else watch.state,
        progress=watch.progress if seen.progress is None else seen.progress,
        has_logged_unknown=watch.has_logged_unknown or is_unknown,
    )
    if seen.state is None:
        is_first = not watch.has_logged_unknown
        return Step(watch=heard, logs="task_status_unknown" if is_first else None)
    if seen.state == "queued" or seen.state == "running":
        return Step(watch=heard)
    if seen.state == "succeeded":
        return Step(
            watch=heard,
            end=End(state="succeeded", result=seen.result, seconds_ms=seen.seconds_ms),
        )
    return Step(watch=heard, end=End(state=_state_in(kind, seen.state), error=seen.error))


Silence: TypeAlias = (
    replies.RateLimited | replies.NotFound | replies.Trouble | TimedOut | Unreachable | Gone
)


def _silent(kind: TaskKind, watch: Watch, seen: Silence) -> Step:
    """Handle a poll without a state of the task."""
    if isinstance(seen, Gone):
        return Step(watch=watch)
    not_found = watch.not_found + 1 if isinstance(seen, replies.NotFound) else 0
    failures = watch.failures + 1
    heard = Watch(
        state=watch.state,
        progress=watch.progress,
        failures=failures,
        not_found=not_found,
        has_logged_unknown=watch.has_logged_unknown,
    )
    if not_found >= NOT_FOUND_MAX:
        return Step(watch=heard, end=ended_as(kind, "lost"))
    retry_after = seen.retry_after_seconds if isinstance(seen, replies.RateLimited) else None
    return Step(
        watch=heard,
        retry_after_seconds=retry_after,
        logs="task_poll_failed" if failures == 1 or failures % LOGGED_EVERY == 0 else None,
    )

"""One piece of work of an upstream: what was asked, what will become of it, where it stands now.

Nothing runs: where a task stands follows from the clock, from what was asked of it (`Plan`) and
from whether it was cancelled or forced to finish.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from loadtests.simulator.directives import Directive
from loadtests.simulator.faults import Fault

SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
QUEUED: Final = "queued"
RUNNING: Final = "running"
QUEUED_SHARE: Final = 0.25  # of a task's time, before it runs
FAILURE: Final = {"code": "generation_failed", "message": "The simulated generation failed."}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What will become of a task."""

    seconds: float  # from the submit to its end
    states: tuple[str, ...] | None  # words to report meanwhile, each for as long
    end: str  # the word to end with
    error: Any  # of one that does not succeed
    has_result: bool
    has_progress: bool
    real_seconds: float | str | None  # reported in place of what was made
    has_seconds: bool
    link_seconds: float | None  # how long its links live, in place of the wire's own time
    file_bytes: int  # its files are at least so large


def plan_of(directive: Directive, usual_seconds: float) -> Plan:
    """What a directive asks for, and what is usual where it asks for nothing."""
    error = directive.task_error
    if error is None and directive.message is not None:
        error = {**FAILURE, "message": directive.message}
    usual_end = SUCCEEDED if error is None else FAILED
    return Plan(
        seconds=usual_seconds if directive.task_seconds is None else directive.task_seconds,
        states=None if directive.task_states is None else tuple(directive.task_states),
        end=directive.task_end or usual_end,
        error=FAILURE if error is None else error,
        has_result=not directive.no_result,
        has_progress=not directive.no_progress,
        real_seconds=directive.real_seconds,
        has_seconds=not directive.no_seconds,
        link_seconds=directive.link_seconds,
        file_bytes=directive.file_bytes,
    )


@dataclass(slots=True)
class Task:
    """A task, an avatar or a cloned voice. Times are Unix seconds."""

    id: str
    wire: str  # which protocol or dialect it came over
    kind: str  # video, music, speech, avatar, voice, transcript
    api_key: str
    model: str
    created_at: float
    plan: Plan
    made_seconds: float = 0.0  # of film or sound
    facts: dict[str, Any] = field(default_factory=dict)  # what its wire wants to remember
    parts: dict[str, Fault] = field(default_factory=dict)  # faults of its own polls and the like
    idempotency_key: str = ""
    polls: int = 0
    cancelled_at: float | None = None
    told_to_finish_at: float | None = None

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.wire} {self.kind} {self.polls} polls>"

    @property
    def seed(self) -> int:
        """What its files look and sound like."""
        return int(self.id[-4:], 16)

    @property
    def ends_at(self) -> float:
        """When it ends, unless it is cancelled before."""
        planned = self.created_at + self.plan.seconds
        told = self.told_to_finish_at
        return planned if told is None else min(planned, told)

    def is_over(self, now: float) -> bool:
        return self.cancelled_at is not None or now >= self.ends_at

    def updated_at(self, now: float) -> float:
        """When it last moved, as far as anyone asks."""
        if self.cancelled_at is not None:
            return self.cancelled_at
        return min(now, self.ends_at)

    def state(self, now: float) -> str:
        """`queued`, `running`, the word it ends with, or a word of its plan."""
        if self.cancelled_at is not None:
            return CANCELLED
        if now >= self.ends_at:
            return self.plan.end
        share = self._share(now)
        if self.plan.states:
            return self.plan.states[
                min(int(share * len(self.plan.states)), len(self.plan.states) - 1)
            ]
        return QUEUED if share < QUEUED_SHARE else RUNNING

    def progress(self, now: float) -> int | None:
        """How much of it is done, of 100; None where it is not reported."""
        if not self.plan.has_progress or self.is_over(now):
            return None
        return int(100 * self._share(now))

    def reported_seconds(self) -> float | str | None:
        """The reported length of what it made; None where it is not reported."""
        if not self.plan.has_seconds:
            return None
        told = self.plan.real_seconds
        return self.made_seconds if told is None else told

    def cancel(self, now: float) -> bool:
        """End it before its time; False when it had ended."""
        if self.is_over(now):
            return False
        self.cancelled_at = now
        return True

    def finish(self, now: float) -> None:
        """Let it end now, as planned."""
        if not self.is_over(now):
            self.told_to_finish_at = now

    def _share(self, now: float) -> float:
        return max(0.0, now - self.created_at) / self.plan.seconds if self.plan.seconds else 1.0

    def describe(self, now: float) -> dict[str, Any]:
        """All about it, ready to be written as JSON."""
        return {
            "id": self.id,
            "wire": self.wire,
            "kind": self.kind,
            "model": self.model,
            "api_key": self.api_key,
            "idempotency_key": self.idempotency_key,
            "state": self.state(now),
            "created_at": self.created_at,
            "polls": self.polls,
            "is_cancelled": self.cancelled_at is not None,
            "facts": self.facts,
        }

"""One piece of work of an upstream, and every one that was begun, within bounds.

Nothing runs: where a task stands follows from the clock, from its directive, and
from whether it was cancelled or forced to finish. The book also has the answers that are repeated
for the same key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from loadtests.simulator.directives import Directive, Fault

SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
QUEUED: Final = "queued"
RUNNING: Final = "running"
QUEUED_SHARE: Final = 0.25  # of a task's time, before it runs
FAILURE: Final = {"code": "generation_failed", "message": "The simulated generation failed."}


@dataclass(slots=True)
class Task:
    """A task, an avatar or a cloned voice. Times are Unix seconds."""

    id: str
    wire: str  # which protocol or dialect it came over
    kind: str  # video, music, speech, avatar, voice, transcript
    api_key: str
    model: str
    created_at: float
    directive: Directive  # of its submit
    seconds: float  # from the submit to its end
    made_seconds: float = 0.0  # of film or sound
    facts: dict[str, Any] = field(default_factory=dict)  # what its wire wants to remember
    parts: dict[str, Fault] = field(default_factory=dict)  # faults of its own polls and the like
    idempotency_key: str = ""
    cancelled_at: float | None = None
    finish_requested_at: float | None = None

    @property
    def error(self) -> Any:
        """Of one that does not succeed; else None."""
        message = self.directive.message
        stated = None if message is None else {**FAILURE, "message": message}
        return stated if self.directive.task_error is None else self.directive.task_error

    @property
    def reason(self) -> tuple[Any, Any]:
        """Code and message of its error."""
        error = self.error
        return (error.get("code"), error.get("message")) if isinstance(error, dict) else ("", error)

    def life(self, usual: float) -> float:
        """How long its links live, in seconds."""
        stated = self.directive.link_seconds
        return usual if stated is None else stated

    @property
    def ends_at(self) -> float:
        """When it ends, unless it is cancelled before."""
        planned = self.created_at + self.seconds
        result = self.finish_requested_at
        return planned if result is None else min(planned, result)

    def is_over(self, now: float) -> bool:
        return self.cancelled_at is not None or now >= self.ends_at

    def has_failed(self, now: float) -> bool:
        return self.is_over(now) and self.state(now) == FAILED

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
            return SUCCEEDED if self.error is None else FAILED
        share = self._share(now)
        if states := self.directive.task_states:
            return states[min(int(share * len(states)), len(states) - 1)]
        return QUEUED if share < QUEUED_SHARE else RUNNING

    def progress(self, now: float) -> int | None:
        """How much of it is done, of 100; None once it is over."""
        return None if self.is_over(now) else int(100 * self._share(now))

    @property
    def reported_seconds(self) -> float | str:
        """The reported length of what it made."""
        result = self.directive.real_seconds
        return self.made_seconds if result is None else result

    def cancel(self, now: float) -> bool:
        """End it before its time; False when it had ended."""
        if self.is_over(now):
            return False
        self.cancelled_at = now
        return True

    def finish(self, now: float) -> None:
        """Let it end now, as planned."""
        if not self.is_over(now):
            self.finish_requested_at = now

    def _share(self, now: float) -> float:
        return max(0.0, now - self.created_at) / self.seconds if self.seconds else 1.0


# The oldest go first: more than any benchmark has open at once.
TASKS_MAX: Final = 200_000
REPLAYS_MAX: Final = 20_000


class TaskBook:
    """Tasks by id, and the answers given under an idempotency key."""

    def __init__(self, seed: int) -> None:
        self._seed_key = b"%d" % seed
        self.tasks: dict[str, Task] = {}
        # By upstream key and idempotency key: a digest of the request, and the answer.
        self.replays: dict[tuple[str, str], tuple[bytes, Any]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self.tasks)

    def clear(self) -> None:
        """Forget everything; ids go on, so that none ever means two things."""
        self.tasks.clear()
        self.replays.clear()

    def new_id(self) -> str:
        """32 hex digits, unused so far."""
        self._serial += 1
        return blake2b(b"%d" % self._serial, key=self._seed_key, digest_size=16).hexdigest()

    def add(self, task: Task) -> None:
        self.tasks[task.id] = task
        if len(self.tasks) > TASKS_MAX:
            del self.tasks[next(iter(self.tasks))]
        if len(self.replays) > REPLAYS_MAX:
            del self.replays[next(iter(self.replays))]

    def find(self, task_id: str, api_key: str | None = None) -> Task | None:
        """A task, of anyone or of this key alone."""
        task = self.tasks.get(task_id)
        return task if task is not None and api_key in (None, task.api_key) else None

    def remove(self, task: Task) -> None:
        self.tasks.pop(task.id, None)

    def of_wire(self, wire: str, api_key: str) -> list[Task]:
        """A key's tasks of one wire, newest first."""
        found = [t for t in self.tasks.values() if t.wire == wire and t.api_key == api_key]
        return found[::-1]

"""One piece of work of an upstream, and every one that was begun, within bounds.

Nothing runs: where a task stands follows from the clock, from what was asked of it (`Plan`) and
from whether it was cancelled or forced to finish. The book also has the answers that are repeated
for the same key.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import msgspec

from loadtests.simulator.directives import Directive, Fault

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


# The oldest go first: more than any benchmark has open at once.
TASKS_MAX: Final = 200_000
REPLAYS_MAX: Final = 20_000
REPLAY_BYTES_MAX: Final = 16 * 1024
KEYS_MAX: Final = 10_000  # whose requests of the last minute are counted
MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Replay:
    """The answer under an idempotency key; no body when it was too large to keep."""

    asked: bytes  # a digest of the request
    status: int
    content_type: bytes
    body: bytes | None


class TaskBook:
    """Tasks by id, and the answers given under an idempotency key."""

    def __init__(self, seed: int, *, tasks_max: int = TASKS_MAX) -> None:
        self._seed_key = b"%d" % seed
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._tasks_max = tasks_max
        self._replays: OrderedDict[tuple[str, str], Replay] = OrderedDict()
        self._recent: OrderedDict[str, deque[float]] = OrderedDict()
        self._serial = 0

    def __repr__(self) -> str:
        return f"<TaskBook {len(self._tasks)} tasks, {len(self._replays)} replays>"

    def __len__(self) -> int:
        return len(self._tasks)

    def clear(self) -> None:
        """Forget everything; ids go on, so that none ever means two things."""
        self._tasks.clear()
        self._replays.clear()
        self._recent.clear()

    def new_id(self) -> str:
        """32 hex digits, unused so far."""
        self._serial += 1
        return blake2b(b"%d" % self._serial, key=self._seed_key, digest_size=16).hexdigest()

    def add(self, task: Task) -> None:
        self._tasks[task.id] = task
        if len(self._tasks) > self._tasks_max:
            self._tasks.popitem(last=False)

    def find(self, task_id: str, api_key: str | None = None) -> Task | None:
        """A task, of anyone or of this key alone."""
        task = self._tasks.get(task_id)
        return task if task is not None and api_key in (None, task.api_key) else None

    def remove(self, task: Task) -> None:
        self._tasks.pop(task.id, None)

    def of_wire(self, wire: str, api_key: str) -> list[Task]:
        """A key's tasks of one wire, newest first."""
        found = [t for t in self._tasks.values() if t.wire == wire and t.api_key == api_key]
        return found[::-1]

    def open_tasks(self, api_key: str, now: float) -> int:
        """How many of a key's tasks are not over."""
        return sum(t.api_key == api_key and not t.is_over(now) for t in self._tasks.values())

    def count(self, api_key: str, now: float, limit: int, seconds: float = MINUTE) -> bool:
        """Count one request of the running minute; False when that makes more than `limit`."""
        times = self._recent.setdefault(api_key, deque())
        self._recent.move_to_end(api_key)
        if len(self._recent) > KEYS_MAX:
            self._recent.popitem(last=False)
        while times and times[0] <= now - seconds:
            times.popleft()
        if len(times) >= limit:
            return False
        times.append(now)
        return True

    def finish(self, now: float, task_id: str | None = None) -> bool:
        """Let one task, or all of them, end now; False for an unknown one."""
        found = list(self._tasks.values())
        if task_id is not None:
            found = [self._tasks[task_id]] if task_id in self._tasks else []
        for task in found:
            task.finish(now)
        return task_id is None or bool(found)

    def describe(self, count: int, now: float) -> list[dict[str, Any]]:
        """The most recent tasks, oldest first."""
        tasks = list(self._tasks.values())[-count:] if count > 0 else []
        return [task.describe(now) for task in tasks]

    # --- Idempotency ---

    def replay(self, api_key: str, key: str) -> Replay | None:
        return self._replays.get((api_key, key))

    def keep(self, api_key: str, key: str, replay: Replay) -> None:
        self._replays[api_key, key] = replay
        if len(self._replays) > REPLAYS_MAX:
            self._replays.popitem(last=False)


def replay_of(target: bytes, asked: bytes, status: int, content_type: bytes, body: bytes) -> Replay:
    """What is kept of an answer."""
    return Replay(
        digest_of(target, asked),
        status,
        content_type,
        body if len(body) <= REPLAY_BYTES_MAX else None,
    )


def digest_of(target: bytes, asked: bytes) -> bytes:
    """A digest that distinguishes requests under the same key."""
    return blake2b(target + b"\0" + asked, digest_size=16).digest()

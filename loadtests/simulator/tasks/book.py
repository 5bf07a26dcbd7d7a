"""Every task that was begun, within bounds, and the answers that are repeated for the same key."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from loadtests.simulator.tasks.task import Task

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

"""An event loop whose time is a number: nobody waits, and nothing outside is ever heard.

When nothing is ready the time becomes that of the next timer. When there is no timer either, the
simulation would wait for ever, which is an error.
"""

import asyncio
import contextvars
from collections.abc import Coroutine, Generator
from concurrent.futures import Executor
from typing import Any, Protocol


class Owner(Protocol):
    """What the tasks of a part of the simulation belong to."""

    def began(self, task: asyncio.Task[Any]) -> None:
        """A task of it begins."""


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)


class WaitsForEver(Exception):
    """Nothing is ready and nothing is due."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs what is ready; then it is later."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-6  # sums of floats: what is due by a hair less is due
        self._selector = self
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Let the time pass, as a selector would."""
        if timeout is None:
            raise WaitsForEver
        self._now += timeout
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """There is no thread that could have woken the loop."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Any, *args: Any
    ) -> Any:
        """Threads have a time of their own: what would run in one runs here, and takes no time."""
        assert executor is None, f"{func}{args} would run in a thread of {executor}"
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whoever awaits it gets it
            done.set_exception(error)
        return done

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    **options: Any,  # from Python 3.14 on more than the context
) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **options)
    context = options.get("context")
    owner = OWNER.get() if context is None else context.get(OWNER)
    if owner is not None:
        owner.began(task)
    return task


class LoopClock:
    """The loop's time as a process has it: its wall clock may be wrong, and may jump."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew_seconds: float = 0.0) -> None:
        self._time = loop.time
        self.skew_seconds = skew_seconds

    def now(self) -> float:
        return 1_790_000_000.0 + self.skew_seconds + self._time()

    def monotonic(self) -> float:
        return 1000.0 + self._time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

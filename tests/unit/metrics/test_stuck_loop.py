"""A loop that stands still is named by what it runs, while it does."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry

from actors.clock import SystemClock
from gw.http.overload import Overload
from gw.runtime.process import start_watches
from gw.runtime.stuck_loop import STUCK_ROUNDS, StuckLoop
from metrics.prometheus import Metrics
from tests.support.logs import LogWatch, logs

ROUND_SECONDS = 0.01
PATIENCE_SECONDS = 60.0


class Lines(logging.Handler):
    """Keeps what was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "action", "") == "loop_stuck":
            self.fields.append(record.__dict__["fields"])


def stand_still(lines: Lines) -> None:
    """Keep the loop until its stall is logged, and for as long again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not lines.fields and time.monotonic() < deadline:
        time.sleep(ROUND_SECONDS)
    time.sleep(2 * STUCK_ROUNDS * ROUND_SECONDS)


@logs("loop_stuck")
async def test_stall_is_logged_once_with_what_the_loop_runs(log_watch: LogWatch) -> None:
    lines = Lines()
    logging.getLogger("gw.runtime").addHandler(lines)
    watch = asyncio.create_task(StuckLoop(clock=SystemClock(), round_seconds=ROUND_SECONDS).run())
    try:
        await asyncio.sleep(2 * ROUND_SECONDS)
        stand_still(lines)
    finally:
        logging.getLogger("gw.runtime").removeHandler(lines)
        watch.cancel()
        await asyncio.wait([watch])
    (found,) = lines.fields
    where = found["where"]
    assert isinstance(where, list)
    assert where[-1].startswith(f"{__file__}:")
    assert where[-1].endswith(" stand_still")


def test_every_process_watches_its_loop() -> None:
    children: dict[str, Callable[[], Awaitable[None]]] = {}
    process = SimpleNamespace(
        clock=SystemClock(),
        metrics=Metrics(CollectorRegistry()),
        supervisor=SimpleNamespace(start=children.__setitem__),
        overload=Overload(None),
        in_flight=None,
    )
    start_watches(cast(Any, process), cast(Any, SimpleNamespace(backlog_seconds=0.0)))
    assert isinstance(getattr(children["stuck_loop"], "__self__", None), StuckLoop)

"""Wait for something to come true where no event loop runs (else `tests/support/aio.py`).

What a client has seen is true in the gateway; in the database, in Redis and in the log it may come
a moment later. A test that reads there waits for what it expects, or for `Deployment.settled`.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from actors.limits.status import WINDOW_SECONDS

T = TypeVar("T")

# So long a test waits for what must come, on however slow a machine; nobody waits so long unless it
# never comes. It is less than a call may take, so that one that hangs does not end by itself.
PATIENCE_SECONDS = 100.0
PAUSE_SECONDS = 0.01


def until(condition: Callable[[], T | None], *, what: str = "the condition") -> T:
    """Return the first true value of `condition`; fail with its name when it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not come true in {PATIENCE_SECONDS:g} s"
        time.sleep(PAUSE_SECONDS)


def within_one_window(ask: Callable[[], T]) -> T:
    """Return what `ask` does, once it took no longer than a limit looks back.

    On a slow machine it is called again: each time it asks for somebody who is new.
    """

    def requested() -> tuple[T] | None:
        began = time.monotonic()
        responses = ask()
        return (responses,) if time.monotonic() - began < WINDOW_SECONDS else None

    return until(requested, what="everything asked in one minute")[0]

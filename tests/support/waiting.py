"""Wait for something to come true, in tests that run no event loop (`aio.py` is for the others)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS = 0.01


def until(
    condition: Callable[[], T | None], *, seconds: float = 15.0, what: str = "the condition"
) -> T:
    """Return the first true value of `condition`; fail with its name after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what} did not come true in {seconds} s"
        time.sleep(PAUSE_SECONDS)

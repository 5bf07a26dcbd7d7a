"""Jobs that go wrong, for the pool's tests."""

import os
import time
from pathlib import Path


def size(body: bytes, more: int) -> tuple[int, bytes]:
    """Tell how long the body is, and give it back twice."""
    return len(body) + more, body * 2


def dies(body: bytes) -> tuple[None, None]:
    """End the process."""
    os._exit(3)


def dies_once(body: bytes, marker: str) -> tuple[str, None]:
    """End the process, but for the second time."""
    path = Path(marker)
    if path.exists():
        return "done", None
    path.touch()
    os._exit(3)


def fails(body: bytes) -> tuple[None, None]:
    """Raise what the caller is to be told."""
    raise ValueError(f"{len(body)} bytes are not to be had")


def computes(body: bytes, tries: str) -> tuple[None, None]:
    """Take the processor for ever, in one call of C code; note that it begins."""
    with Path(tries).open("a") as file:
        file.write(".")
    sum(iter(int, 1))
    return None, None


def waits(body: bytes, marker: str, began: str = "") -> tuple[None, None]:
    """Wait until a file is there; note that it begins."""
    if began:
        with Path(began).open("a") as file:
            file.write(".")
    while not Path(marker).exists():
        time.sleep(0.01)
    return None, None

"""Puts a process under a wall clock that can be set while it runs: imported as it starts.

The `sitecustomize` in `folder(…)`, which the environment's PYTHONPATH names, imports this in every
Python process that is started with it. The offset is in a file of eight bytes that all of them map.
Monotonic time goes on as it does when a machine's clock is set.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "CHAOS_CLOCK_FILE"
_SECONDS = struct.Struct("d")


class WrongClock:
    """The clock of some processes, for the process that sets it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "offset"
        self._folder = folder
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(f"import {__name__}\n{__name__}.install()\n")
        self.set(0.0)

    @property
    def environ(self) -> Mapping[str, str]:
        """What the environment of those processes has besides."""
        path = [str(self._folder), str(Path(__file__).resolve().parents[2])]
        return {VARIABLE: str(self._file), "PYTHONPATH": os.pathsep.join(path)}

    def set(self, seconds: float) -> None:
        """Let it be so far ahead of the true time."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(_SECONDS.pack(seconds))


def install() -> None:
    """Let `time.time` and `time.time_ns` of this process be as wrong as the file states."""
    with open(os.environ[VARIABLE], "rb") as file:
        shared = mmap.mmap(file.fileno(), _SECONDS.size, prot=mmap.PROT_READ)
    now, now_ns = time.time, time.time_ns

    def offset() -> float:
        seconds: float = _SECONDS.unpack_from(shared)[0]
        return seconds

    time.time = lambda: now() + offset()
    time.time_ns = lambda: now_ns() + int(offset() * 1e9)

"""What the operating system says: CPU time of a process tree, resident memory, cores to pin to."""

from __future__ import annotations

import os
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time of one process, with its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(value) for value in fields[11:15]) / _TICK


def tree_cpu_seconds(pid: int) -> float:
    """CPU time of a process and its living descendants."""
    return sum(cpu_seconds(one) for one in tree(pid))


def tree(pid: int) -> list[int]:
    """A process and its living descendants."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            children = (task / "children").read_text().split()
            found.extend(int(child) for child in children)
    return found


def resident_mb(pid: int) -> float:
    """Resident memory of one process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * _PAGE / 1e6


def pin(pid: int, cores: set[int]) -> None:
    """Keep a process, and its threads, on these cores, where the system can."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)

"""The machine: CPU time and memory of processes, which cores each of a load gets, versions.

What is measured is alone on its cores where it can be.

CPU time is the scheduler's own count in nanoseconds where it can be asked for, because the ticks of
/proc (and of psutil) are 10 ms long, as long as a hundred plain calls.
"""

from __future__ import annotations

import errno
import os
import platform
import resource
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from actors import process
from actors.store.embedded.binaries import find_binaries

_TICK = os.sysconf("SC_CLK_TCK")

OWN_SESSION = Path("/proc/self/autogroup")
NICE, DATABASE_NICE = -20, -5  # agents of a machine may have -10; load goes before a database
PACKAGES = ("tornado", "uvloop", "httptools", "msgspec", "ujson", "aiopg", "psycopg2-binary")


def cpu_seconds(pid: int) -> float:
    """User and system time of one process with all its threads, and of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own, ended = (sum(map(int, fields[at : at + 2])) / _TICK for at in (11, 13))
    return (process.cpu_seconds(pid) or own) + ended


def resident_mb(pid: int) -> float:
    """Resident memory of one process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def proportional_mb(pid: int) -> float:
    """Memory of one process in MB, of what it shares its part: PostgreSQL's buffers count once."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(rollup.partition("\nPss:")[2].split(None, 1)[0]) * 1024 / 1e6


def of_tree(read: Callable[[int], float], pid: int) -> float:
    """The sum of `cpu_seconds` or `resident_mb` of a process and its living descendants."""
    total = 0.0
    for one in tree(pid):
        with suppress(
            FileNotFoundError, ProcessLookupError
        ):  # ended meanwhile: its parent has its time
            total += read(one)
    return total


def tree(pid: int | None) -> list[int]:
    """A process, if there is one, and its living descendants."""
    found = [pid] if pid else []
    for one in found:
        found.extend(children(one))
    return found


def children(pid: int) -> list[int]:
    """The living children of a process; none when it has ended."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except FileNotFoundError:
        return []


def stolen_seconds() -> float:
    """CPU time of all cores that other guests of this machine's host have taken; 0 if unknown."""
    every_core = Path("/proc/stat").read_text().partition("\n")[0].split()
    return int(every_core[8]) / _TICK if len(every_core) > 8 else 0.0


def pin(pid: int, cores: Iterable[int]) -> None:
    """Keep a process, with all its threads, on these cores."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


def allow_files(wanted: int) -> int:
    """Let this process and those it starts open so many files; return how many they may."""
    for most in (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
        with suppress(ValueError, OSError):  # only a privileged process may exceed its hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            break
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def go_first(pids: Iterable[int], *, nice: int = NICE) -> bool:
    """Let processes, and what they start, go before other work; returns whether they may.

    Linux may weigh sessions first and processes only within one: then each session is set, too.
    """
    for pid in pids:
        session = Path(f"/proc/{pid}/autogroup")
        try:
            os.setpriority(os.PRIO_PROCESS, pid, nice)
            if session.exists():
                session.write_text(str(nice))
        except ProcessLookupError:  # it has ended meanwhile
            continue
        except OSError as error:
            if error.errno != errno.EINVAL:  # it belongs to no session that has a weight
                return False
    return True


@contextmanager
def session_kept() -> Iterator[None]:
    """Give the session of this process back the weight that it has now.

    It is the terminal's, too: what is started there later would go before every service of the
    machine, whose sessions are their own.
    """
    # Without weights of sessions there is no file; of a process that is in no session it is empty.
    told = OWN_SESSION.read_text().split() if OWN_SESSION.exists() else []
    try:
        yield
    finally:
        if told:
            with suppress(OSError):  # it was not raised, either: the same right is needed for that
                OWN_SESSION.write_text(told[-1])


def free_ports(count: int) -> list[int]:
    """Ports without a listener at this moment."""
    with ExitStack() as stack:
        socks = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in socks]


def description() -> list[str]:
    """The machine and the versions, one line each."""
    server = subprocess.check_output(
        [find_binaries(os.environ).path("postgres"), "--version"], text=True
    )
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    info = Path("/proc/cpuinfo").read_text().partition("model name")[2].partition("\n")[0]
    cpu, cores = info.partition(":")[2].strip() or platform.machine(), os.sched_getaffinity(0)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return [
        f"{cpu}, {len(cores)} cores, {platform.system()} {platform.release()}",
        f"{python}, {server.strip()}; {packages}",
    ]


Cores = frozenset[int]


class Placement(NamedTuple):
    """Cores of the server under test, of PostgreSQL, of the upstream, and of the load."""

    server: Cores
    database: Cores
    upstream: Cores
    load: Cores

    @property
    def rig(self) -> Cores:
        """Every core that something other than the server under test may use."""
        return self.database | self.upstream | self.load

    @property
    def is_disjoint(self) -> bool:
        """Whether the server under test shares its cores with nothing."""
        return not self.server & self.rig

    def describe(self) -> str:
        """One sentence for the table."""
        text = ", ".join(
            f"{role} on core{'s' * (len(cores) > 1)} {', '.join(map(str, sorted(cores)))}"
            for role, cores in zip(
                ("server under test", "PostgreSQL", "upstream", "load"), self, strict=True
            )
        )
        if not self.is_disjoint:
            return text + "; they compete, so rates and latencies are not to be compared"
        if len(self.rig) < 3:
            return text + "; what surrounds the server shares cores, so its own figures are CPU"
        return text


def place(available: Sequence[int], *, server: int = 1) -> Placement:
    """Share out cores; `server` is how many the server under test wants.

    Where there are too few, PostgreSQL, upstream and load share what is left, or everything.
    """
    own, rest = available[:server], available[server:] or available
    if len(rest) > 2:
        return Placement(*map(frozenset, (own, rest[:1], rest[1:2], rest[2:3])))
    # Of two that are left the load has one.
    others, load = (rest[:1], rest[1:]) if len(rest) == 2 and rest != available else (rest, rest)
    return Placement(*map(frozenset, (own, others, others, load)))


@cache
def available_cores() -> tuple[int, ...]:
    """The cores of this process. Asked once, before it keeps itself to some of them."""
    return tuple(sorted(os.sched_getaffinity(0)))

"""The identity of this process among others on the same database, and whether another one runs.

A pid alone identifies nothing: it is valid in one pid namespace of one boot, and may be reused.
It is therefore combined with both, and with the start time of its process.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from actors.store.queries import load
from actors.store.session import Statements
from metrics.logs import EventLog
from metrics.prometheus import Metrics

SQL = load("actors", "processes.sql")
PROC = Path("/proc")
# Indexes in /proc/PID/stat after the name, which may contain anything: the state, and 19 fields
# later the start time, in clock ticks since boot.
STATE, START = 0, 19
# Killed and not yet reaped by its parent: it executes nothing more.
DEAD_STATES = frozenset("ZXx")
# The clock of a process in its number, as clock_getcpuclockid(3) makes it.
CPUCLOCK_SCHED = 2


@dataclass(slots=True)
class ProcessIdentity:
    """Identity of a process: `boot_id` shows whether its pid can be looked up from here.

    The id changes when others have declared the process dead: they settle what it held under the
    old id, and nothing new is held under that. `pid_started` is in clock ticks since boot, 0 if
    unknown. `confirmed_at` is the monotonic start of the last statement by which the database
    confirmed the id.
    """

    id: str
    host: str
    boot_id: str
    pid: int
    pid_started: int = 0
    incarnation: int = 1
    confirmed_at: float = float("-inf")

    @classmethod
    def of_this_process(cls, process_id: str) -> ProcessIdentity:
        """Return the identity of the running process."""
        pid = os.getpid()
        _, started = _stat(pid) or ("R", 0)
        return cls(process_id, socket.gethostname(), _boot_id(), pid, started)

    def shares_pids(self, host: str, boot_id: str) -> bool:
        """Whether a pid of that host and boot denotes the same process here."""
        return boot_id != "" and (host, boot_id) == (self.host, self.boot_id)

    def renew(self, lost_id: str) -> bool:
        """Replace the id `lost_id` by the next one; False if that has been done already."""
        if self.id != lost_id:
            return False
        self.incarnation += 1
        self.id = self.all_ids[-1]
        return True

    @property
    def first_id(self) -> str:
        """The first id of the process, constant for its lifetime."""
        return first_id_of(self.id)

    @property
    def all_ids(self) -> list[str]:
        """All ids that this process has had, the present one last."""
        later = (f"{self.first_id}.{number}" for number in range(2, self.incarnation + 1))
        return [self.first_id, *later]


def first_id_of(process_id: str) -> str:
    """Return the first id of the process with this id."""
    return process_id.partition(".")[0]


async def register(database: Statements, identity: ProcessIdentity) -> None:
    """Insert the row of the process unless it exists. Raises StoreUnavailable."""
    who = identity
    await database.execute(
        SQL["register"], (who.id, who.host, who.boot_id, who.pid, who.pid_started)
    )


async def reregister(
    database: Statements, identity: ProcessIdentity, lost_id: str, metrics: Metrics
) -> None:
    """Register under a new id after others have declared it dead. Raises StoreUnavailable.

    The heartbeat or the ledger's writer notices first; both may call it.
    """
    if identity.renew(lost_id):
        EventLog("actors.identity").warning("taken_for_dead", process=lost_id, now=identity.id)
        metrics.taken_for_dead()
    await register(database, identity)


def is_process_alive(pid: int, started: int) -> bool:
    """Whether the process with this number and start time still runs in this pid namespace.

    If one of the start times is unknown (0), only the number is compared. A stopped process is
    alive.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists, under another user
    found = _stat(pid)
    if found is None:
        return True
    state, begun = found
    return state not in DEAD_STATES and (started == 0 or started == begun)


def cpu_seconds(pid: int) -> float:
    """CPU time of a process with all its threads; 0 if it has ended or the kernel does not tell."""
    try:
        return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)
    except OSError:
        return 0.0


def cpu_wait_seconds(pid: int) -> float:
    """How long the main thread of a process could have run while others had the CPU.

    0 if it has ended or the kernel does not count it.
    """
    try:
        _, waited_ns, *_ = (PROC / str(pid) / "schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0
    return int(waited_ns) / 1e9


def _stat(pid: int) -> tuple[str, int] | None:
    """Return the state of a process and its start in clock ticks.

    None if the kernel does not report it.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[STATE], int(fields[START])


def _boot_id() -> str:
    """Return an id of this boot and pid namespace, or "" if it is unknown."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{(PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""

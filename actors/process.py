"""Who this process is to the others on the same database, and whether another one still runs.

A pid alone identifies nothing: it has a meaning in one pid namespace of one boot, and may have been
given to another process since. So it goes with both, and with the instant that its process began.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from actors.store.queries import load
from metrics.logs import EventLog
from metrics.prometheus import Metrics

SQL = load("actors", "processes.sql")
PROC = Path("/proc")
# In /proc/PID/stat behind the name, which may hold anything: the state, and 19 fields later the
# start, in clock ticks since the boot.
STATE, START = 0, 19
# Killed and not yet asked after by its parent: it will do nothing more.
DEAD_STATES = frozenset("ZXx")


class IdentityStore(Protocol):
    """Anything that runs one statement."""

    async def execute(self, sql: str, params: Sequence[str | int] = ()) -> int: ...


@dataclass(slots=True)
class ProcessIdentity:
    """Identity of a process: `boot_id` shows whether its pid can be looked up from here.

    The id changes when others have declared the process dead: what it held under the old one is
    theirs to settle, and nothing new is held under it. `pid_started` is in clock ticks since the
    boot, 0 where that cannot be known. `confirmed_at` is the monotonic instant of the last
    statement by which the database confirmed the id.
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
        """The identity of the running process."""
        pid = os.getpid()
        _, started = _stat(pid) or ("R", 0)
        return cls(process_id, socket.gethostname(), _boot_id(), pid, started)

    def shares_pids(self, host: str, boot_id: str) -> bool:
        """Whether a pid of that host and boot means the same process here."""
        return boot_id != "" and (host, boot_id) == (self.host, self.boot_id)

    def renew(self, lost_id: str) -> bool:
        """Go on under another id than `lost_id`; False if that has happened since."""
        if self.id != lost_id:
            return False
        self.incarnation += 1
        self.id = self.all_ids[-1]
        return True

    @property
    def first_id(self) -> str:
        """The id with which the process began, the same for as long as it runs."""
        return first_id_of(self.id)

    @property
    def all_ids(self) -> list[str]:
        """The ids that this process has had, the present one last."""
        later = (f"{self.first_id}.{number}" for number in range(2, self.incarnation + 1))
        return [self.first_id, *later]


def first_id_of(process_id: str) -> str:
    """The id with which the process of this id began."""
    return process_id.partition(".")[0]


async def register(database: IdentityStore, identity: ProcessIdentity) -> None:
    """Make the process's row, if it is not there. Raises StoreUnavailable."""
    who = identity
    await database.execute(
        SQL["register"], (who.id, who.host, who.boot_id, who.pid, who.pid_started)
    )


async def reregister(
    database: IdentityStore, identity: ProcessIdentity, lost_id: str, metrics: Metrics
) -> None:
    """Go on under another id: others have declared the process dead. Raises StoreUnavailable.

    The heartbeat or the ledger's writer finds out first; both may call it.
    """
    if identity.renew(lost_id):
        EventLog("actors.identity").warning("taken_for_dead", process=lost_id, now=identity.id)
        metrics.taken_for_dead()
    await register(database, identity)


def is_process_alive(pid: int, started: int) -> bool:
    """Whether the process of this pid namespace with this number and start still runs.

    Where one of the starts is not known (0), the number alone counts. A process that stands still
    is alive.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # someone else's, so it is there
    found = _stat(pid)
    if found is None:
        return True
    state, begun = found
    return state not in DEAD_STATES and (started == 0 or started == begun)


def _stat(pid: int) -> tuple[str, int] | None:
    """The state of a process and its start in clock ticks.

    None where the kernel does not report it.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[STATE], int(fields[START])


def _boot_id() -> str:
    """This boot of this kernel and this pid namespace, or nothing where that cannot be known."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{(PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""

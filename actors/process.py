"""Who this process is to the others on the same database, and whether another one still runs.

A pid alone says nothing: it means something in one pid namespace of one boot, and may have been
given to another process since. So it goes with both, and with the instant that its process began.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import ujson

from actors.clock import Clock
from actors.live import Delivered, LiveCalls
from actors.store.connection import StoreUnavailable
from actors.store.database import Database
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
    """Who this process is to others: `boot_id` tells whether its pid can be looked up from here.

    The id changes when others have declared the process dead: what it held under the old one is
    theirs to settle, and nothing new is held under it. `pid_started` is in clock ticks since the
    boot, 0 where that cannot be known.
    """

    id: str
    host: str
    boot_id: str
    pid: int
    pid_started: int = 0
    incarnation: int = 1

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
        return self.id.partition(".")[0]

    @property
    def all_ids(self) -> list[str]:
        """The ids that this process has had, the present one last."""
        later = (f"{self.first_id}.{number}" for number in range(2, self.incarnation + 1))
        return [self.first_id, *later]


async def sign_on(database: IdentityStore, identity: ProcessIdentity) -> None:
    """Make the process's row, if it is not there. Raises StoreUnavailable."""
    who = identity
    await database.execute(
        SQL["sign_on"], (who.id, who.host, who.boot_id, who.pid, who.pid_started)
    )


async def sign_on_again(
    database: IdentityStore, identity: ProcessIdentity, lost_id: str, metrics: Metrics
) -> None:
    """Go on under another id: others have declared the process dead. Raises StoreUnavailable.

    The heartbeat or the ledger's writer finds out first; both may call it.
    """
    if identity.renew(lost_id):
        EventLog("actors.identity").warning("taken_for_dead", process=lost_id, now=identity.id)
        metrics.taken_for_dead()
    await sign_on(database, identity)


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
    """The state of a process and its start in clock ticks; None where the kernel does not tell."""
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


# The heartbeat of this process: it says which calls live here and what they have delivered.
#
# Once a second, in one short batch: the process's sign of life, the progress of calls that moved,
# and whatever else is kept without a write per call (`last_used_at` of keys). Recovery in another
# process trusts it (`recovery.py`).

INTERVAL_SECONDS = 1.0
# Without a response for so long the beats have not gone on without a break, whatever they say
# later: a statement may hang in a frozen database and still succeed.
BREAK_SECONDS = 5.0
# A watch that comes so late has been asleep with the whole process: it says nothing of others.
LATE_SECONDS = 1.0
# So many calls are priced in about a millisecond, while every stream waits.
CALLS_AT_ONCE = 200


class Heartbeat:
    """Beats until stopped; a missed beat is tried again with the next."""

    def __init__(
        self,
        *,
        identity: ProcessIdentity,
        database: Database,
        live: LiveCalls,
        clock: Clock,
        metrics: Metrics,
        chores: tuple[Callable[[], Awaitable[None]], ...] = (),
    ) -> None:
        self.identity = identity
        self._database = database
        self._live = live
        self._clock = clock
        self._metrics = metrics
        self._chores = chores
        self._log = EventLog("actors.heartbeat")
        # Since when the database has answered every beat; None while it does not.
        self.connected_since: float | None = None
        self._last_beat = 0.0
        self._has_signed_on = False

    def __repr__(self) -> str:
        return f"<Heartbeat {self.identity.id} {len(self._live)} live calls>"

    @property
    def steady_seconds(self) -> float:
        """How long the database has answered every beat, without a break until now."""
        now = self._clock.monotonic()
        if self.connected_since is None or now - self._last_beat > BREAK_SECONDS:
            return 0.0
        return now - self.connected_since

    async def run(self) -> None:
        """Beat once a second."""
        while True:
            await self.beat()
            await self._clock.sleep(INTERVAL_SECONDS)

    async def watch(self) -> None:
        """Tell of a database that is silent while a beat hangs in it, within a second of the break.

        What frozen servers keep open is only known by its silence.
        """
        while True:
            due = self._clock.monotonic() + INTERVAL_SECONDS
            await self._clock.sleep(INTERVAL_SECONDS)
            now = self._clock.monotonic()
            if now - due < LATE_SECONDS and now - self._last_beat > BREAK_SECONDS:
                self._missed(f"no answer for {BREAK_SECONDS:g} s")

    def _missed(self, why: str) -> None:
        if self.connected_since is not None:
            self._log.warning("heartbeat_missed", error=why)
        self.connected_since = None
        self._metrics.database_up(False)

    async def beat(self) -> None:
        """One sign of life."""
        try:
            await self._sign()
            await self._report_delivered()
            for chore in self._chores:
                await chore()
        except StoreUnavailable as error:
            self._missed(str(error))
            self._live.report_again()
            return
        self._metrics.database_up(True)
        now = self._clock.monotonic()
        if self.connected_since is None or now - self._last_beat > BREAK_SECONDS:
            self.connected_since = now
        self._last_beat = now

    async def _sign(self) -> None:
        """Say that the process lives; under another id when others have taken it for dead."""
        signed = self.identity.id
        if await self._database.execute(SQL["beat"], (signed,)):
            return
        if self._has_signed_on:
            await sign_on_again(self._database, self.identity, signed, self._metrics)
        else:
            await sign_on(self._database, self.identity)
            self._has_signed_on = True

    async def leave(self) -> None:
        """Sign off: nothing lives here any more."""
        await self._database.execute(SQL["leave"], (self.identity.all_ids,))

    async def open_holds(self) -> int:
        """How many holds of this process are open, by the database."""
        mine = (self.identity.all_ids,)
        ((count,),) = await self._database.fetch_all(SQL["count_holds_of"], mine)
        return int(count)

    async def _report_delivered(self) -> None:
        for moved in self._live.changed(at_once=CALLS_AT_ONCE):
            if moved:
                rows = [
                    {"call_id": call_id.hex, "delivered": delivered_to_json(delivered)}
                    for call_id, delivered in moved
                ]
                await self._database.execute(SQL["delivered"], (ujson.dumps(rows),))
            else:
                await asyncio.sleep(0)


def delivered_to_json(delivered: Delivered) -> dict[str, int | str]:
    """The stored form of what a call has delivered."""
    return {
        "cost": delivered.cost_nano_usd,
        "input": delivered.input_tokens,
        "output": delivered.output_tokens,
        "cached": delivered.cached_tokens,
        "cache_write": delivered.cache_write_tokens,
        "basis": delivered.basis,
    }

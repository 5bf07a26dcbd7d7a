"""Account limits of the simulation: the judge that all processes share, and whether they hold."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from actors.limits.backend import (
    BackendUnavailable,
    EnterCommand,
    LimitCommand,
    ReleaseCommand,
    RenewCommand,
)
from actors.limits.status import WINDOW_SECONDS, LimitStatus
from actors.parent.windows import SharedWindows
from gw.keys.principal import Principal

REPLY_SECONDS = 0.25
# A request is admitted by the judge this much before its process knows of it, at most.
JUDGED_BEFORE_SECONDS = 1.0


@dataclass
class Judge:
    """Where the processes ask, as their parent is; it may be away, and loses batches."""

    chance: Random
    lost: float
    is_away: bool = False
    lost_at: float = -2 * WINDOW_SECONDS  # when a process had no reply, last
    windows: SharedWindows = field(default_factory=SharedWindows)

    def heal(self) -> None:
        """From now on every batch is answered."""
        self.lost, self.is_away = 0.0, False

    def follow(self, process: int, commands: Sequence[LimitCommand]) -> list[LimitStatus | None]:
        """Take effect, and reply."""
        now = asyncio.get_running_loop().time()
        return [self._follow(process, command, now) for command in commands]

    def _follow(self, process: int, command: LimitCommand, now: float) -> LimitStatus | None:
        windows, name = self.windows, command.name
        match command:
            case EnterCommand(slot=slot, rpm=rpm, concurrency=concurrency):
                return windows.enter(
                    name, (process, slot), rpm=rpm, concurrency=concurrency, now=now
                )
            case RenewCommand():
                for slot in command.permits:
                    windows.permit(name, (process, slot))
                for slot, age in command.window:
                    windows.add_late(name, (process, slot), at=now - age)
            case ReleaseCommand(slot=slot, from_window=from_window):
                windows.release(name, (process, slot), from_window=from_window)
        return None


class JudgeBackend:
    """The link of one process to the judge: what it holds ends with it."""

    name = "parent"
    permits_expire = False

    def __init__(self, judge: Judge, process: int) -> None:
        self._judge = judge
        self._process = process
        self.is_cut = False

    async def connect(self) -> None:
        await self.call(())
        self._judge.windows.drop_permits(self._process)

    async def call(
        self, commands: Sequence[LimitCommand], *, timeout_factor: int = 1
    ) -> Sequence[LimitStatus | None]:
        judge, chance = self._judge, self._judge.chance
        fate = chance.random()
        await asyncio.sleep(chance.expovariate(500))
        if judge.is_away or fate < judge.lost:
            if chance.random() < 0.5 and not self.is_cut:
                judge.follow(self._process, commands)  # heard all the same
            await asyncio.sleep(REPLY_SECONDS * timeout_factor)
            self._lost()
        if self.is_cut:
            self._lost()
        statuses = judge.follow(self._process, commands)
        await asyncio.sleep(chance.expovariate(500))
        return statuses

    async def close(self) -> None:
        self.cut()

    def cut(self) -> None:
        """The process is gone."""
        if not self.is_cut:
            self.is_cut = True
            self._judge.windows.drop_permits(self._process)

    def _lost(self) -> None:
        self._judge.lost_at = asyncio.get_running_loop().time()
        raise BackendUnavailable("no reply")


class Limited(Protocol):
    """A process, as limits are told of it."""

    name: str


@dataclass(eq=False)
class Admission:
    """A request that limits let in."""

    process: str
    account: str
    at: float
    in_window: bool
    in_concurrency: bool


@dataclass
class Admissions:
    """Everything that was let in, over all processes; says when that was too much.

    While a process has no reply of the judge it counts for itself, so for a window after that the
    limits hold in each process alone.
    """

    judge: Judge
    fault: Callable[[str], None]
    recent: list[Admission] = field(default_factory=list)
    in_flight: set[Admission] = field(default_factory=set)

    def enter(self, process: Limited, principal: Principal) -> Admission:
        """A request is in."""
        now = asyncio.get_running_loop().time()
        rpm, concurrency, account = (
            principal.rpm_limit,
            principal.concurrency_limit,
            principal.account_id,
        )
        horizon = now - WINDOW_SECONDS + JUDGED_BEFORE_SECONDS
        self.recent = [one for one in self.recent if one.at > horizon]
        is_shared = now - self.judge.lost_at > WINDOW_SECONDS

        def counts(one: Admission) -> bool:
            return one.account == account and (is_shared or one.process == process.name)

        requests = sum(counts(one) and one.in_window for one in self.recent)
        if rpm is not None and requests >= rpm:
            self.fault(f"{process.name} admits {requests + 1} requests of {account}, of {rpm}")
        flying = sum(counts(one) and one.in_concurrency for one in self.in_flight)
        if concurrency is not None and flying >= concurrency:
            self.fault(f"{process.name} has {flying + 1} of {account} at once, of {concurrency}")
        made = Admission(process.name, account, now, rpm is not None, concurrency is not None)
        self.recent.append(made)
        self.in_flight.add(made)
        return made

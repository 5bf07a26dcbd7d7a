"""What happens to the world of the simulation, one thing after the other, until it heals."""

import asyncio
from typing import Protocol

from tests.simulation.process import GatewayProcess, Surroundings
from tests.simulation.upstreams import MOODS

PROCESSES_MAX = 3
SECONDS_TO_FIND_CALLS = 10


class Fleet(Protocol):
    """The processes that there are."""

    processes: list[GatewayProcess]

    def note(self, text: str) -> None: ...

    def begin(self, host: str) -> GatewayProcess: ...

    async def kill(self, process: GatewayProcess) -> None: ...

    async def stop(self, process: GatewayProcess) -> None: ...


class Trouble:
    """Draws one event after the other, of some kinds."""

    def __init__(self, fleet: Fleet, around: Surroundings, hosts: tuple[str, ...]) -> None:
        self._fleet = fleet
        self._around = around
        self._hosts = hosts
        self._chance = around.chance

    async def run(self, seconds: float) -> None:
        """Until so many seconds are over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        kinds = (
            self._change_mood,
            self._fail_all,
            self._kill,
            self._replace,
            self._lose_database,
            self._freeze_database,
            self._cut_off,
            self._lose_judge,
            self._move_clock,
            self._begin,
        )
        # A few of them each time: troubles of many kinds get in each other's way.
        events = self._chance.sample(kinds, self._chance.randint(1, len(kinds)))
        while loop.time() < end:
            await asyncio.sleep(self._chance.expovariate(0.5))
            await self._chance.choice(events)()

    async def _change_mood(self) -> None:
        channel = self._chance.choice(self._around.channels).id
        mood = self._around.upstreams.moods[channel] = self._chance.choice(MOODS)
        self._fleet.note(f"{channel} is {mood}")

    async def _fail_all(self) -> None:
        """No channel answers: a call goes from one to the next until it may not go on."""
        upstreams = self._around.upstreams
        upstreams.moods.update(dict.fromkeys(upstreams.moods, "failing"))
        self._fleet.note("every channel is failing")

    def _living(self) -> list[GatewayProcess]:
        return [one for one in self._fleet.processes if not one.is_dead and not one.is_stopping]

    async def _kill(self) -> None:
        if living := self._living():
            await self._fleet.kill(self._chance.choice(living))

    async def _begin(self) -> None:
        if len(self._living()) < PROCESSES_MAX:
            self._fleet.begin(self._chance.choice(self._hosts))

    async def _replace(self) -> None:
        """A rolling restart, or an orderly end with nobody in its place."""
        if living := self._living():
            old = self._chance.choice(living)
            if self._chance.random() < 0.7:
                self._fleet.begin(old.host)
                await asyncio.sleep(self._chance.uniform(0, 2))
            await self._fleet.stop(old)

    async def _lose_database(self) -> None:
        self._fleet.note("the database is away")
        self._around.network.go_away()
        await asyncio.sleep(self._chance.uniform(0.1, 12))
        self._around.network.is_away = False
        self._fleet.note("the database is back")

    async def _freeze_database(self) -> None:
        self._fleet.note("the database is frozen")
        self._around.network.thawed.clear()
        await asyncio.sleep(self._chance.uniform(0.1, 12))
        self._around.network.thawed.set()
        self._fleet.note("the database goes on")

    async def _cut_off(self) -> None:
        """One process hears nothing of the database; others may take it for dead.

        In the middle of a call, if one comes: its settlement is late then.
        """
        for _ in range(SECONDS_TO_FIND_CALLS):
            if any(len(one.live) for one in self._living()):
                break
            await asyncio.sleep(1)
        if living := self._living():
            one = self._chance.choice([p for p in living if len(p.live)] or living)
            seconds = self._chance.uniform(1, 40)
            self._fleet.note(f"{one.name} is cut off for {seconds:.1f} s")
            one.reach.connected.clear()
            asyncio.get_running_loop().call_later(seconds, one.reach.connected.set)

    async def _lose_judge(self) -> None:
        self._fleet.note("the judge of limits is away")
        self._around.judge.is_away = True
        await asyncio.sleep(self._chance.uniform(0.1, 12))
        self._around.judge.is_away = False
        self._fleet.note("the judge of limits is back")

    async def _move_clock(self) -> None:
        """A wall clock is set; nothing may come of it but other timestamps."""
        if living := self._living():
            one = self._chance.choice(living)
            one.clock.skew_seconds += self._chance.uniform(-7200, 7200)
            self._fleet.note(f"the clock of {one.name} jumps")

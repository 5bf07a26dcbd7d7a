"""The faults: what is done for how long, and what clients may see of it beside answers.

Each is struck under load and healed before it returns, unless it heals by itself.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from loadtests.chaos.calls import Outcome
from loadtests.chaos.judge import Terms
from loadtests.chaos.load import Load, dribble, read_nothing
from loadtests.chaos.stack import SETTINGS, Stack, channels, models
from loadtests.chaos.wrong_clock import WrongClock
from loadtests.rig.deployment import channel
from loadtests.rig.refusals import REFUSALS
from loadtests.rig.servers import frozen_server

PAUSED_SECONDS = 20.0
SHORT_SECONDS = {"chat": 6, "image_attempt": 4, "image_total": 6, "video_submit": 4}
HOUR, DAY = 3600.0, 86_400.0


class Broken(Exception):
    """A promise of the fault itself was not kept."""


@dataclass(frozen=True)
class Strike:
    """What a fault is given: what it hits, the load beside it, how long it lasts, and chance."""

    stack: Stack
    load: Load
    seconds: float
    rng: random.Random
    clock: WrongClock

    async def last(self) -> None:
        """Let it last."""
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault under its name; `seconds` None: as long as others.

    `opens`: channels fail by it, and all of them are closed again once they are well.
    """

    strike: Callable[[Strike], Awaitable[None]]
    may: frozenset[Outcome] = frozenset()
    forgets: bool = False
    opens: bool = False
    seconds: float | None = None
    settings: Callable[[], Mapping[str, Any]] = dict
    logs_to_file: bool = False

    @property
    def terms(self) -> Terms:
        """What may come of its calls."""
        return Terms(may=self.may, forgets=self.forgets)


async def kill_worker(strike: Strike) -> None:
    os.kill(strike.rng.choice(strike.stack.gateway.process.workers), signal.SIGKILL)
    await strike.last()


async def kill_parent(strike: Strike) -> None:
    os.kill(strike.stack.gateway.process.pid, signal.SIGKILL)
    await strike.last()
    await strike.stack.gateway.ready()


async def kill_all(strike: Strike) -> None:
    strike.stack.kill_gateway()
    await strike.last()
    await strike.stack.gateway.ready()


async def cut_power(strike: Strike) -> None:
    strike.stack.kill_gateway()
    await asyncio.to_thread(strike.stack.kill_postgres)
    strike.stack.valkey.kill()
    await asyncio.to_thread(strike.stack.valkey.start)
    await strike.last()
    await strike.stack.gateway.ready()


async def stop_worker(strike: Strike) -> None:
    """Its parent finds out by its silence; it never goes on by itself."""
    worker = strike.rng.choice(strike.stack.gateway.process.workers)
    os.kill(worker, signal.SIGSTOP)
    silence: float = strike.stack.settings["worker_silence_seconds"]
    await asyncio.sleep(max(strike.seconds, silence))
    try:
        async with asyncio.timeout(3 * silence):
            while worker in strike.stack.gateway.process.workers:
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise Broken(f"worker {worker} stands still and lives on") from None


async def restart_rolling(strike: Strike) -> None:
    """As `ops/running.md` has it: a reload, then another gateway beside the first, twice."""
    os.kill(strike.stack.gateway.process.pid, signal.SIGHUP)
    for _ in range(2):
        await asyncio.sleep(strike.seconds / 2)
        code = await strike.stack.replace()
        if code:
            raise Broken(f"the gateway that was replaced ended with {code}")


async def kill_postgres(strike: Strike) -> None:
    await asyncio.to_thread(strike.stack.kill_postgres)
    await strike.last()


async def pause_postgres(strike: Strike) -> None:
    with frozen_server(strike.stack.folder):
        await strike.last()


async def refuse(how: str, strike: Strike) -> None:
    """PostgreSQL answers, and refuses what it is asked for, for its own state."""
    refusal = REFUSALS[how](strike.stack.folder, strike.stack.database_url)
    await asyncio.to_thread(refusal.__enter__)
    try:
        await strike.last()
    finally:
        await asyncio.to_thread(refusal.__exit__, None, None, None)


async def kill_redis(strike: Strike) -> None:
    strike.stack.valkey.kill()
    await strike.last()
    await asyncio.to_thread(strike.stack.valkey.start)


async def pause_redis(strike: Strike) -> None:
    strike.stack.valkey.freeze()
    try:
        await strike.last()
    finally:
        strike.stack.valkey.thaw()


async def _every_channel(strike: Strike, **directive: Any) -> None:
    upstream = strike.stack.upstream
    await asyncio.to_thread(lambda: upstream.fault(**directive))
    try:
        await strike.last()
    finally:
        await asyncio.to_thread(upstream.heal)


async def channels_flap(strike: Strike) -> None:
    """Half a second failing, half a second well."""
    upstream = strike.stack.upstream
    for _ in range(max(1, round(strike.seconds))):
        await asyncio.to_thread(lambda: upstream.fault(status=502, poll={"status": 500}))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(upstream.heal)
        await asyncio.sleep(0.5)


async def channels_hang(strike: Strike) -> None:
    """Half before their heads, half in the middle."""
    half = strike.seconds / 2
    for hang in ("headers", 3):
        part = Strike(strike.stack, strike.load, half, strike.rng, strike.clock)
        await _every_channel(part, hang=hang, poll={"hang": "headers"})


def time_outs_are_short() -> dict[str, Any]:
    """So that what hangs ends within the fault."""
    return {"timeouts": {**SETTINGS["timeouts"], **SHORT_SECONDS}}


async def clients_leave(strike: Strike) -> None:
    strike.load.leave_ratio = 0.5
    await strike.last()
    strike.load.leave_ratio = 0.0


async def clients_linger(
    how: Callable[[Load, int, float], Awaitable[None]], strike: Strike
) -> None:
    await how(strike.load, strike.stack.port, strike.seconds)


def much_is_logged() -> dict[str, Any]:
    """A first channel that comes and goes with each call, which is two lines of the log."""
    flapping = {"failures": 1, "cooldown": 0.001}
    nobody = channel("nobody", base_url="http://127.0.0.1:9", health=flapping)
    chat, *others = models()
    return {
        "channels": [{**nobody, "priority": 0, "protocols": ["chat", "messages"]}, *channels()],
        "models": [{**chat, "channels": ["nobody", *chat["channels"]]}, *others],
    }


async def fill_disk(strike: Strike) -> None:
    """No process of the gateway may write its log's file any longer than it is."""
    gateway, log_file = strike.stack.gateway.process, strike.stack.log_file
    assert log_file is not None
    pids = [gateway.pid, *gateway.workers]
    size = log_file.stat().st_size
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in pids}
    for pid, (_, hard) in before.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    await strike.last()
    lost = (await strike.stack.page()).total("gw_log_lines_lost_total")
    for pid, limits in before.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    if log_file.stat().st_size > size or not lost:
        raise Broken(f"the disk was not full: {lost} lines lost")


async def read_no_log(strike: Strike) -> None:
    strike.stack.gateway.process.pause_reading()
    await strike.last()
    strike.stack.gateway.process.go_on_reading()


async def jump_clock(strike: Strike) -> None:
    """Ahead, back beyond where it was, into another month, and to the truth."""
    for seconds in (HOUR, -DAY, 40 * DAY, 0.0):
        strike.clock.set(seconds)
        await asyncio.sleep(strike.seconds / 4)


_FAIL = partial(_every_channel, status=503, poll={"status": 503})
_CUT = partial(_every_channel, cut_after_events=3, cut="reset", poll={"refuse": True})
_LOST: frozenset[Outcome] = frozenset({"unanswered", "cut"})
_REFUSED: frozenset[Outcome] = frozenset({"refused"})
_LEFT: frozenset[Outcome] = frozenset({"left"})

FAULTS: Mapping[str, Fault] = {
    "worker-killed": Fault(strike=kill_worker, may=_LOST, forgets=True),
    "parent-killed": Fault(strike=kill_parent, may=_REFUSED | {"unanswered"}),
    "all-killed": Fault(strike=kill_all, may=_LOST, forgets=True),
    "power-cut": Fault(strike=cut_power, may=_LOST, forgets=True),
    "worker-stopped": Fault(strike=stop_worker, may=_LOST, forgets=True),
    "postgres-killed": Fault(strike=kill_postgres, may=_REFUSED),
    "postgres-paused": Fault(strike=pause_postgres, may=_REFUSED, seconds=PAUSED_SECONDS),
    **{f"postgres-{how}": Fault(strike=partial(refuse, how), may=_REFUSED) for how in REFUSALS},
    "redis-killed": Fault(strike=kill_redis),
    "redis-paused": Fault(strike=pause_redis, seconds=PAUSED_SECONDS),
    "channels-failing": Fault(strike=_FAIL, may=_REFUSED, opens=True),
    "channels-flapping": Fault(strike=channels_flap, may=_REFUSED, opens=True),
    "channels-hanging": Fault(
        strike=channels_hang,
        may=_REFUSED | {"cut"},
        opens=True,
        settings=time_outs_are_short,
    ),
    "channels-cutting": Fault(strike=_CUT, may=_REFUSED | {"cut"}, opens=True),
    "clients-leaving": Fault(strike=clients_leave, may=_LEFT),
    "clients-not-reading": Fault(strike=partial(clients_linger, read_nothing), may=_LEFT),
    "clients-dribbling": Fault(strike=partial(clients_linger, dribble)),
    "log-disk-full": Fault(strike=fill_disk, settings=much_is_logged, logs_to_file=True),
    "log-unread": Fault(strike=read_no_log, settings=much_is_logged),
    "clock-jumping": Fault(strike=jump_clock),
    "rolling-restart": Fault(strike=restart_rolling),
}

"""One seed from its beginning to its end."""

import asyncio
import hashlib
import logging
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from actors.store.errors import StoreUnavailable
from actors.wallet.money import parse_usd
from channels.prices import PriceSpec
from channels.registry import HealthSpec
from gw.budgets.refusal import HEADER
from tests.simulation.budgets import Attributions
from tests.simulation.clients import CHAIN, STEPS, Call, Credential, Kind, SlowClient
from tests.simulation.copies import CopyRow
from tests.simulation.files import Folder
from tests.simulation.keys import Tenant
from tests.simulation.limits import Admissions, Judge
from tests.simulation.loop import LoopClock, SimulatedLoop, WaitsForEver
from tests.simulation.operator import Operator
from tests.simulation.process import GatewayProcess, Surroundings
from tests.simulation.reach import Network
from tests.simulation.rules import (
    MULTIPLIER,
    MULTIPLIERS,
    PRICES,
    Breach,
    copied,
    is_whole,
    leftovers,
    on_budgets,
    outcomes,
    over_cap,
    safety,
)
from tests.simulation.store import SimulatedStore
from tests.simulation.trouble import Trouble
from tests.simulation.upstreams import DEAR, Upstreams
from tests.support.specs import make_channel, make_model

ACCOUNTS = {
    "rich": 10**12,
    "poor": 4_000_000,
    "tight": 60_000_000,  # part of it is leased, and a dear call or two take all of it
    "filming": 2_000_000_000,
    "limited": 10**10,
}
LIMITED = Tenant(rpm_limit=6, concurrency_limit=2)
BUDGETED = (("rich",), ("rich",), ("rich", "tight"), ())  # accounts with budgets
LOST = (0.0, 0.0, 0.01, 0.05)  # parts of all statements
CHANNELS = ("a", "b", "c", "d")
HOSTS = ("here", "there")
KINDS: tuple[Kind, ...] = ("chat", "stream", "stream", "image", "film")
# Calls a second of a client, how many it makes, and of which kinds. Budgets are leased where there
# are many that are short.
Habits = tuple[float, tuple[int, int], tuple[Kind, ...]]
USUAL: Habits = 0.3, (2, 6), KINDS
BUSY: Habits = 3.0, (10, 30), ("chat", "chat", "chat", "chat", "stream", "image")
COMMANDS = (0.0, 0.0, 0.1, 0.3)  # of the operator, a second
TROUBLE_SECONDS = (10.0, 60.0)
# When the world is well, so much later everything has ended: a call's time, or a job's.
CALLS_END_SECONDS = 60.0
ALL_ENDS_SECONDS = 400.0
# Lines that say of themselves that something is wrong in the gateway.
DEFECTS = frozenset(
    {
        "child_returned",
        "budget_phantom_refusal",
        "hold_leaked",
        "media_copier_died",
        "media_not_copied",
        "ledger_batch_failed",
        "ledger_message_refused",
        "supervisor_gave_up",
        "task_poll_broken",
    }
)


@dataclass(frozen=True)
class Report:
    """What one seed has brought. `breach` is None where every rule held."""

    seed: int
    breach: str | None
    counts: Counter[str]
    digest: str
    trace: tuple[str, ...]


@dataclass
class World:
    """Everything of one seed."""

    seed: int
    data_dirs: Path  # of the hosts
    trace: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    processes: list[GatewayProcess] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)
    is_well: bool = False

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self._loop = asyncio.get_running_loop()
        self.store = SimulatedStore(LoopClock(self._loop))
        for account, balance in ACCOUNTS.items():
            limits = LIMITED if account == "limited" else Tenant()
            self.store.open_tenant(account, balance, replace(limits))
        lost = self.chance.choice(LOST)
        self.network = Network(self.store, self.chance, self._look, lost=lost)
        self.network.thawed.set()
        clock = LoopClock(self._loop)
        self.operator = Operator(self.network, self.chance, clock, list(ACCOUNTS), self.note)
        self.operator.first_keys()
        budgeted = self.chance.choice(BUDGETED)
        self.operator.budgeted = list(budgeted)
        self.operator.first_budgets()
        self.attributions = Attributions(self.chance, frozenset(budgeted))
        self.judge = Judge(self.chance, lost)
        moods = dict.fromkeys(CHANNELS, "healthy")
        self.upstreams = Upstreams(self.chance, self.chance.choice(DEAR), moods)
        health = HealthSpec(failures=1, cooldown_seconds=2.0)
        channels = tuple(
            make_channel(
                name,
                priority=priority,
                health=health,
                max_concurrency=self.chance.choice((1, 3, 20)),
                protocols=frozenset({"chat", "images", "videos"}),
                hops_when_throttled=priority < len(CHANNELS),
            )
            for priority, name in enumerate(CHANNELS, start=1)
        )
        for channel in channels:  # keys rest and are aside in the time of the world
            channel.ring.tell_time_by(clock.monotonic)
        film = make_model(
            *CHANNELS,
            id="film",
            endpoint_type="videos_generations",
            price=_priced("per_second"),
            multiplier=Decimal(MULTIPLIER),
        )
        picture = make_model(
            *CHANNELS,
            id="picture",
            endpoint_type="images_generations",
            price=_priced("per_image"),
            multiplier=Decimal(MULTIPLIER),
        )
        priced = _priced("input", "cached_input", "output")
        text = make_model(*CHANNELS, price=priced, multiplier=Decimal(MULTIPLIER))
        steps = tuple(
            make_model(*names, id=name, price=priced, multiplier=Decimal(MULTIPLIERS[name]))
            for name, names in STEPS.items()
        )
        best = make_model(id=CHAIN, chain=steps)
        self.models = {"m": text, "film": film, "picture": picture, CHAIN: best}
        self.around = Surroundings(
            self.network,
            self.upstreams,
            self.chance,
            channels,
            self.judge,
            Admissions(self.judge, self.fault),
            Folder(),
            self._is_alive,
            self.data_dirs,
        )

        self.store.copies.on_kept = self._kept

    def _kept(self, row: CopyRow) -> None:
        """A copy is there: it is the whole file, once."""
        self.counts["copies"] += 1
        if not is_whole(self.around.folder, row):
            self.fault(f"copy {row.id} is not its file")

    def note(self, text: str) -> None:
        """Something happens that a replay must repeat."""
        self.trace.append(f"{self._loop.time():10.4f} {text}")

    def fault(self, text: str) -> None:
        """A rule is broken."""
        self.note(f"BREACH {text}")
        self.breaches.append(text)

    def _look(self, sql: str) -> None:
        self.counts["statements"] += 1
        self.note(f"statement {hash_of(sql)}")
        for one in safety(self.store, self._existing()):
            self.fault(one)
        for one in over_cap(self.store, self.operator.credentials):
            self.fault(one)

    def _existing(self) -> list[GatewayProcess]:
        return [one for one in self.processes if not one.is_dead]

    def _is_alive(self, pid: int) -> bool:
        return any(one.number == pid for one in self._existing())

    def begin(self, host: str) -> GatewayProcess:
        """Another process; one whose start fails ends."""
        process = GatewayProcess(self.around, len(self.processes) + 1, host)
        self.processes.append(process)
        self.note(f"{process.name} begins on {host}")
        self.counts["processes"] += 1

        async def start() -> None:
            try:
                await process.start()
            except StoreUnavailable:
                self._loop.create_task(self.kill(process))

        process.run(start)
        return process

    async def kill(self, process: GatewayProcess) -> None:
        """kill -9."""
        self.note(f"{process.name} is killed")
        self.counts["kills"] += 1
        await process.kill()

    async def stop(self, process: GatewayProcess) -> None:
        """SIGTERM, and no more of it when it has ended."""
        self.note(f"{process.name} is to end")
        self.counts["restarts"] += 1
        process.is_stopping = True
        ending = process.run(lambda: self._ended(process))

        def gone(_: asyncio.Task[None]) -> None:
            if not process.is_dead:
                self._loop.create_task(process.kill())

        ending.add_done_callback(gone)

    async def _ended(self, process: GatewayProcess) -> None:
        is_settled = await process.stop()
        self.note(f"{process.name} ends, settled: {is_settled}")

    async def _client(self, number: int, account: str) -> None:
        is_busy = account in self.operator.budgeted
        pace, turns, kinds = BUSY if is_busy else USUAL
        for turn in range(self.chance.randint(*turns)):
            await asyncio.sleep(self.chance.expovariate(pace))
            if self.is_well:
                return
            kind = "film" if account == "filming" else self.chance.choice(kinds)
            is_keyed = kind == "film" or (kind == "image" and self.chance.random() < 0.5)
            key = f"key {number}.{turn}" if is_keyed else None
            # With a key a client asks again until it is answered.
            for _ in range(3 if key else 1):
                call = await self._one_call(kind, account, key)
                if call is None or call.is_whole or call.error in ("stored", "too_large"):
                    break
                if self.is_well:
                    return
                await asyncio.sleep(self.chance.expovariate(0.3))

    async def _one_call(self, kind: Kind, account: str, key: str | None) -> Call | None:
        ready = [one for one in self.processes if one.is_ready and not one.is_dead]
        if not ready:
            self.counts["nobody listens"] += 1
            return None
        process = self.chance.choice(ready)
        client = SlowClient(self.chance, is_slow=self.chance.random() < 0.2)
        credential = self.operator.key_of(account)
        call = Call(len(self.calls) + 1, kind, credential, process, client, self.fault, key)
        call.attribution, call.ceiling_nano_usd = self.attributions.of(account)
        call.is_chained = kind in ("chat", "stream") and self.chance.random() < 0.3
        self.calls.append(call)
        self.counts[kind] += 1
        client.task = process.run(lambda: call.run(self.models))
        if self.chance.random() < 0.25:
            await asyncio.wait([client.task], timeout=self.chance.expovariate(0.5))
            if not client.task.done():
                call.was_left = True
                self.counts["left"] += 1
                client.leave()
        await asyncio.wait([client.task])
        if not client.task.cancelled() and (error := client.task.exception()) is not None:
            self.fault(f"call {call.number} raised {error!r}")
        self.note(f"call {call.number} {kind} in {process.name}: {call.error or 'whole'}")
        self.counts["trials"] += call.is_trial
        self.counts[f"served by {call.served}"] += call.is_chained and call.has_begun
        self.counts["answered" if call.is_whole else f"not answered: {call.error}"] += 1
        return call

    async def run(self) -> None:
        """Trouble, then peace, then the books."""
        for number in range(self.chance.randint(1, 3)):
            self.begin(HOSTS[number % 2])
        accounts = self.chance.choices(list(ACCOUNTS), (5, 2, 4, 2, 3), k=self.chance.randint(2, 8))
        accounts += self.operator.budgeted * self.chance.choice((1, 6))
        clients = [
            asyncio.ensure_future(self._client(number, account))
            for number, account in enumerate(accounts)
        ]
        operator = asyncio.ensure_future(self.operator.run(self.chance.choice(COMMANDS)))
        await Trouble(self, self.around, HOSTS).run(self.chance.uniform(*TROUBLE_SECONDS))
        operator.cancel()
        await asyncio.wait([operator])
        if not operator.cancelled():
            operator.result()
        self._heal()
        await self._expect(lambda: all(c.done() for c in clients), CALLS_END_SECONDS, "calls end")
        for client in clients:
            if client.done():
                client.result()
            else:
                client.cancel()
        living = self._existing()
        await self._expect(
            lambda: not leftovers(self.store, living), ALL_ENDS_SECONDS, "nothing is left"
        )
        found = outcomes(self.store, self.upstreams, self.calls)
        found += on_budgets(self.store, self.calls, self.operator.in_force)
        for one in [*found, *copied(self.store, self.around.folder)]:
            self.fault(one)
        self._count_budgets()
        await self._probe()
        for process in living:
            await process.kill()

    def _heal(self) -> None:
        self.note("the world is well")
        self.is_well = True
        self.network.heal()
        self.judge.heal()
        self.upstreams.heal()
        for process in self._existing():
            process.reach.connected.set()
        for host in HOSTS:
            if not any(p.host == host and not p.is_stopping for p in self._existing()):
                self.begin(host)

    async def _expect(self, is_so: object, seconds: float, what: str) -> None:
        assert callable(is_so)
        end = self._loop.time() + seconds
        while not is_so() and not self.breaches:
            if self._loop.time() > end:
                left = leftovers(self.store, self._existing())
                self.fault(f"{what}: not within {seconds:g} s: {left[:5]}")
            await asyncio.sleep(0.5)

    def _count_budgets(self) -> None:
        """How much of what budgets do has come to pass."""
        nodes, counts = self.store.nodes, self.counts
        periods = Counter((place[1], place[2]) for place in nodes.sums)
        counts["borders of budgets passed"] += sum(number - 1 for number in periods.values())
        counts["held on budgets"] += sum(
            bool(row.get("budgets")) for row in self.store.rows.values()
        )
        counts["refused by budgets"] += sum(HEADER in call.refusal for call in self.calls)
        counts["changes of budgets in force"] += len(self.operator.in_force)

    async def _probe(self) -> None:
        """Each process serves what comes now, and what a budget just covers, but no more."""
        if self.breaches:
            return
        credential = await self.operator.restore("rich")
        budget_id = (
            await self.operator.only_budget("rich") if "rich" in self.operator.budgeted else None
        )
        for process in self._existing():
            if process.is_stopping or self.breaches:
                continue
            if budget_id is not None:
                await self._fill(budget_id, process, credential)
            call = await self._try_out(process, credential)
            if not call.is_whole:
                self.fault(f"{process.name} does not serve: {call.error} after {call.tried}")

    async def _fill(self, budget_id: str, process: GatewayProcess, credential: Credential) -> None:
        """A budget refuses a call of which it has nothing left, and is left with just enough."""
        spent = self._spent(budget_id)
        await self.operator.limit(budget_id, spent)
        refused = await self._try_out(process, credential)
        if refused.error != "quota_exceeded" or refused.tried:
            self.fault(f"{process.name} goes beyond a budget: {refused.error}")
            return
        needed = refused.refusal[HEADER].partition("needed=")[2].partition(";")[0]
        await self.operator.limit(budget_id, spent + parse_usd(needed))

    def _spent(self, budget_id: str) -> int:
        sums = self.store.nodes.sums.items()
        return sum(one.spent + one.held for place, one in sums if place[1] == budget_id)

    async def _try_out(self, process: GatewayProcess, credential: Credential) -> Call:
        client = SlowClient(self.chance, is_slow=False)
        call = Call(len(self.calls) + 1, "chat", credential, process, client, self.fault)
        self.calls.append(call)
        await process.run(lambda: call.run(self.models))
        await process.wallets.settled(credential.account)
        return call


def simulate(seed: int) -> Report:
    """Run one seed."""
    strays: list[str] = []
    found: list[World] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: strays.append(repr(context)))
        world = World(seed, Path(data_dirs))
        found.append(world)
        await world.run()

    folder = tempfile.TemporaryDirectory()
    with (
        folder as data_dirs,
        _listening(found),
        asyncio.Runner(loop_factory=SimulatedLoop) as runner,
    ):
        try:
            runner.run(main())
        except (Breach, WaitsForEver, AssertionError) as error:
            strays.append(repr(error))
    (world,) = found
    breaches = [*world.breaches, *strays]
    lines = tuple(world.trace)
    return Report(
        seed=seed,
        breach=breaches[0] if breaches else None,
        counts=world.counts,
        digest=hash_of("\n".join(lines)),
        trace=lines,
    )


def _priced(*names: str) -> PriceSpec:
    prices: dict[str, Any] = {name: Decimal(PRICES[name]) for name in names}
    return PriceSpec(**prices)


def hash_of(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class _Defects(logging.Handler):
    """Takes the log's lines; those of a defect are breaches."""

    def __init__(self, found: list[World]) -> None:
        super().__init__()
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        action = getattr(record, "action", record.msg)
        self._found[0].counts[f"log: {action}"] += 1
        if action in DEFECTS:
            self._found[0].fault(f"the log says {action}: {getattr(record, 'fields', '')}")


@contextmanager
def _listening(found: list[World]) -> Iterator[None]:
    """The gateway's log goes to the simulation alone."""
    loggers = [logging.getLogger(name) for name in ("actors", "gw", "channels")]
    before = [(logger.propagate, logger.level) for logger in loggers]
    handler = _Defects(found)
    for logger in loggers:
        logger.propagate = False
        logger.setLevel(logging.INFO)
        logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for logger, (propagates, level) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagates
            logger.setLevel(level)

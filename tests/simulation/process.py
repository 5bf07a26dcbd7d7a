"""One gateway process of the simulation: everything between listener and sockets is real."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, cast

from actors.changes import ChangeFeed
from actors.channel_directory import ChannelDirectory
from actors.heartbeat import Heartbeat
from actors.jobs.ending import Endings
from actors.jobs.poller import Poller
from actors.jobs.schedule import Schedule
from actors.jobs.service import Jobs
from actors.jobs.upstreams import JobUpstreams
from actors.limits.accounts import AccountLimits
from actors.limits.limiter import Limiter
from actors.limits.shared import SharedLimits
from actors.media_store.copier import Copier
from actors.media_store.copies import Copy
from actors.media_store.fetch import FileLocation
from actors.media_store.links import LinkSigner
from actors.media_store.store import CopyStore
from actors.media_store.task_scanner import TaskScanner
from actors.media_store.throttle import Throttle
from actors.media_store.worker import MediaStore
from actors.process import ProcessIdentity
from actors.recovery import Recovery
from actors.store.database import Database
from actors.supervisor import Supervisor
from actors.wallet.flight_recorder.recorder import Recorder
from actors.wallet.flight_recorder.wreck import left_behind
from actors.wallet.live_calls import LiveCalls
from actors.wallet.messages import CallFacts, JobEnd, Outcome
from actors.wallet.neighbours import Neighbours
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from actors.webhooks.nudges import Nudges
from channels.media.model import MIB
from channels.offload.pool import OffloadPool
from channels.redaction import Redactor
from channels.registry import ChannelSpec
from gw.calls.detached import DetachedTasks
from gw.calls.exchange_upstream import ExchangeUpstream
from gw.calls.jobs import JobSubmit
from gw.http.drain import RequestsInFlight
from gw.http.server import Server
from gw.keys.cache import KeyCache
from gw.keys.last_use import LastUse
from gw.runtime.pushes import Pushes
from gw.runtime.shutdown import Shutdown
from metrics.prometheus import Metrics
from tests.simulation.files import Folder, SimulatedFiles
from tests.simulation.limits import Admissions, Judge, JudgeBackend
from tests.simulation.loop import OWNER, LoopClock
from tests.simulation.reach import Network, Reach
from tests.simulation.upstreams import SimulatedHttp, Upstreams
from tests.support.calls import Limits, in_force, use_cases
from tests.unit.keys.fakes import HASHER

CHAT_SECONDS = 20.0
ATTEMPT_SECONDS, MEDIA_SECONDS = 8.0, 12.0
SUBMIT_SECONDS = 8.0
DEADLINE_SECONDS = 120.0  # of a job
CLAIM_SECONDS = 15.0
SCHEDULE = Schedule(first_seconds=1.0, factor=1.5, max_seconds=8.0)
DRAIN_SECONDS = 10.0
# Turns of the loop in which a killed process's coroutines are all gone.
TURNS_TO_DIE = 50
# Calls that a process records at a time: more than ever are under way here.
SLOTS = 256


@dataclass(frozen=True)
class Surroundings:
    """What all processes have in common."""

    network: Network
    upstreams: Upstreams
    chance: Random
    channels: tuple[ChannelSpec, ...]
    judge: Judge
    admissions: Admissions
    folder: Folder
    is_alive: Callable[[int], bool]  # by pid
    data_dirs: Path  # a folder of each host's below it


class NoListener:
    """The end of a server that nobody is connected to."""

    async def stop_accepting(self) -> None:
        """Nobody comes."""

    async def wait_for_clients(self, seconds: float) -> None:
        """Nobody asks again."""


@dataclass
class GatewayProcess:
    """Begins with `start`, ends with `kill` or `stop`."""

    around: Surroundings
    number: int
    host: str
    is_ready: bool = False
    is_dead: bool = False
    is_stopping: bool = False
    tasks: dict[asyncio.Task[Any], None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = f"proc{self.number}"
        chance, loop = self.around.chance, asyncio.get_running_loop()
        self.clock = clock = LoopClock(loop, skew_seconds=chance.uniform(-300, 300))
        self.metrics = metrics = Metrics()
        self.reach = Reach(self.around.network)
        self.http = SimulatedHttp(self.around.upstreams)
        database = cast(Database, self.reach)
        boot = f"boot of {self.host}"
        self.identity = ProcessIdentity(self.name, self.host, boot, self.number, 1)
        self.live = live = LiveCalls()
        self._jobs_changed = asyncio.Event()
        self.in_flight = RequestsInFlight()
        self.supervisor = Supervisor(clock=clock, metrics=metrics)
        self.channels = ChannelDirectory(supervisor=self.supervisor, clock=clock, metrics=metrics)
        self.writer = LedgerWriter(
            database=database, identity=self.identity, clock=clock, metrics=metrics
        )
        self._data_dir = self.around.data_dirs / self.host
        self.recorder = Recorder(metrics)
        assert self.recorder.open(self._data_dir, self.name, slots=SLOTS)
        self.wallets = wallets = Wallets(
            writer=self.writer,
            database=database,
            clock=clock,
            metrics=metrics,
            recorder=self.recorder,
        )
        self._neighbours = Neighbours(
            database=database,
            identity=self.identity,
            settled=wallets.settled,
            give_back=wallets.give_back,
            stop_leasing=wallets.stop_leasing,
        )
        wallets.call_back = self._neighbours.give_back
        self._make_checks(database)
        self.heartbeat = Heartbeat(
            identity=self.identity,
            database=database,
            live=live,
            clock=clock,
            metrics=metrics,
            chores=(self._feed.send_echo, self._last_use.write, self._forget_idle),
            called_back=self._neighbours.called_back,
        )
        self.recovery = Recovery(
            heartbeat=self.heartbeat,
            database=database,
            wallets=wallets,
            live=live,
            unsettled=self.writer.unsettled,
            is_process_alive=lambda pid, _: self.around.is_alive(pid),
            clock=clock,
            metrics=metrics,
            data_dir=self._data_dir,
        )
        self._make_calls(database)
        self.media_store = self._make_copies(database)

    def __repr__(self) -> str:
        state = "dead" if self.is_dead else "ready" if self.is_ready else "starting"
        return f"<GatewayProcess {self.name} {state} {len(self.live)} live calls>"

    def _make_checks(self, database: Database) -> None:
        """What stands before a call: its key and the limits of its account."""
        clock, metrics = self.clock, self.metrics
        self.keys = KeyCache(database, HASHER, clock, metrics, on_balance=self.wallets.note_balance)
        self._backend = JudgeBackend(self.around.judge, self.number)
        self._shared_limits = SharedLimits(backend=self._backend, clock=clock, metrics=metrics)
        self._limiter = Limiter(clock=clock, shared=self._shared_limits)
        self.limits = AccountLimits(limiter=self._limiter, metrics=metrics)
        self._last_use = LastUse(keys=self.keys, database=database)
        pushes = Pushes(
            keys=self.keys,
            limiter=self._limiter,
            jobs_changed=self._jobs_changed,
            webhooks=Nudges(),
        )
        self._feed = ChangeFeed(
            database=database,
            identity=self.identity,
            clock=clock,
            on_change=pushes.take_push,
            on_gap=pushes.lost,
            on_heard=self.keys.vouch,
        )

    async def _forget_idle(self) -> None:
        self.keys.forget_idle()
        self.wallets.forget_idle()
        self._limiter.forget_idle()

    def _make_calls(self, database: Database) -> None:
        clock, metrics, chance = self.clock, self.metrics, self.around.chance
        redactor = Redactor(self.around.channels)
        self.offload = OffloadPool()
        running = use_cases(
            wallets=self.wallets,
            live=self.live,
            channels=self.channels,
            http=self.http,
            redactor=redactor,
            offload=self.offload,
            limits=Limits(CHAT_SECONDS, ATTEMPT_SECONDS, MEDIA_SECONDS),
            clock=clock,
            metrics=metrics,
            budgets=database,
        )
        self.chat_calls, self.images = running.chat_calls, running.images
        specs = {channel.id: channel for channel in self.around.channels}
        upstreams = JobUpstreams(
            http=self.http,
            channels=lambda: specs,
            seconds=SUBMIT_SECONDS,
            body_bytes_max=MIB,
            clock=clock,
        )
        self.jobs = Jobs(
            database=database,
            schedule=SCHEDULE,
            deadline_seconds=DEADLINE_SECONDS,
            chance=chance.random,
            clock=clock,
            metrics=metrics,
        )
        self.submits = JobSubmit(
            billing=running.billing,
            channels=self.channels,
            upstream=ExchangeUpstream(http=self.http, body_bytes_max=MIB, clock=clock),
            upstreams=upstreams,
            jobs=self.jobs,
            detached=DetachedTasks(self.in_flight),
            current=in_force(redactor),
            total_seconds=SUBMIT_SECONDS,
        )
        self.poller = Poller(
            name=self.name,
            database=database,
            upstreams=upstreams,
            endings=Endings(
                database=database,
                settle=self._settle_job,
                upstreams=upstreams,
                redact=str,
                content_link=lambda job_id, _: f"https://gateway.example/{job_id}",
                upstream_cost=lambda *_: None,
                clock=clock,
                metrics=metrics,
            ),
            schedule=SCHEDULE,
            concurrency=8,
            claim_seconds=CLAIM_SECONDS,
            chance=chance.random,
            clock=clock,
            metrics=metrics,
            changed=self._jobs_changed,
            cpu_seconds=lambda: 0.0,
        )

    def _make_copies(self, database: Database) -> MediaStore:
        store, clock = CopyStore(database, "local"), self.clock
        self._files = files = SimulatedFiles(self.around.folder, self.around.upstreams)
        copier = Copier(
            store=store,
            storage=files,
            locate=self._located,
            bytes_max=None,
            file_bytes_max=10**9,
            throttle=Throttle(0, clock),
            clock=clock,
            metrics=self.metrics.media_store,
            fetch=files.fetch,
        )
        return MediaStore(
            store=store,
            storage=files,
            copier=copier,
            find=TaskScanner(database, store).find,
            signer=LinkSigner(b"a key"),
            keep_days=7,
            concurrency=2,
            clock=clock,
        )

    async def _located(self, copy: Copy) -> FileLocation | None:
        assert copy.url is not None
        return FileLocation(copy.url, f"http://{copy.channel_id}.example")

    async def _settle_job(self, facts: CallFacts, outcome: Outcome, job_end: JobEnd) -> None:
        self.wallets.settle(facts, outcome, job_end=job_end)
        await self.wallets.settled(facts.account_id)

    def began(self, task: asyncio.Task[Any]) -> None:
        """A task of this process begins."""
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))

    def run(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run something in this process: it dies with it."""
        token = OWNER.set(self)
        try:
            return asyncio.create_task(_awaited(work))
        finally:
            OWNER.reset(token)

    async def start(self) -> None:
        """In the order of `gw/serve.py`."""
        await self._shared_limits.start()
        self.supervisor.start("ledger", self.writer.run)
        self.channels.configure({channel.id: channel for channel in self.around.channels})
        await self.heartbeat.beat()
        self.supervisor.start("heartbeat", self.heartbeat.run)
        self.supervisor.start("database_watch", self.heartbeat.watch)
        self.supervisor.start("recovery", self.recovery.run)
        await self._feed.start()
        self.supervisor.start("changes", self._feed.run)
        await self._neighbours.start()
        self.supervisor.start("neighbours", self._neighbours.run)
        self.supervisor.start("limits", self._shared_limits.run)
        self.supervisor.start("poller", self.poller.run)
        self.supervisor.start("media_store", self.media_store.run)
        self.is_ready = True

    async def stop(self) -> bool:
        """SIGTERM; whether everything was settled."""
        self.is_stopping = True
        is_settled = await Shutdown(
            in_flight=self.in_flight,
            public=cast(Server, NoListener()),
            writer=self.writer,
            heartbeat=self.heartbeat,
            last_use=self._last_use,
            supervisor=self.supervisor,
            clock=self.clock,
        ).drain(DRAIN_SECONDS)
        await self.supervisor.stop()
        await self._shared_limits.close()
        return is_settled

    async def kill(self) -> None:
        """SIGKILL: nothing of it acts on the world any more, then it is gone."""
        self.is_dead = True
        self.is_ready = False
        self.recorder.close()
        self.reach.cut()
        self.http.is_cut = True
        self._backend.cut()
        self._files.cut()
        for _ in range(TURNS_TO_DIE):
            if not self.tasks:
                return
            for task in list(self.tasks):
                task.cancel()
            await asyncio.sleep(0)
        raise AssertionError(f"{self!r} does not die: {list(self.tasks)}")

    def leftovers(self) -> list[str]:
        """What is under way in it, when nothing should be."""
        left = [f"slots of {one!r}" for one in self.channels.values() if one.in_use]
        left += [f"live call {call_id}" for call_id in self.live.ids()]
        left += [f"unsettled call {call_id}" for call_id in self.writer.unsettled()]
        left += [f"{self.in_flight!r}"] * bool(len(self.in_flight))
        recorded = left_behind(self._data_dir)
        left += [f"record of {name}" for name in recorded if not self._lives(name)]
        return [f"{self.name}: {one}" for one in [*left, *self.http.leftovers()]]

    def _lives(self, name: str) -> bool:
        return self.around.is_alive(int(name.removeprefix("proc")))


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()

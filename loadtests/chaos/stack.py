"""What a fault can hit, running: a gateway of two processes, PostgreSQL, Redis and the upstream."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2

from actors.clock import SystemClock
from actors.store.embedded.postgres import EmbeddedPostgres
from actors.store.embedded.postmaster import Postmaster
from loadtests.chaos import calls
from loadtests.chaos.unit import READY_SECONDS, NotReady, Unit
from loadtests.chaos.valkey import MortalValkey, mortal_valkey
from loadtests.rig.async_connection import exchange
from loadtests.rig.deployment import SECRET, channel, model
from loadtests.rig.folders import temporary_folder
from loadtests.rig.installation import Installation
from loadtests.rig.machine import free_ports, tree
from loadtests.rig.own_time import OwnTime
from loadtests.rig.process import Process, until_end
from loadtests.rig.processes import SimulatorProcess, serve
from loadtests.rig.scrape import Admin, Page
from loadtests.rig.servers import kill_server
from loadtests.rig.tenants import Registrar, Tenant
from loadtests.rig.upstream import Upstream

PROCESSES = 2
ACCOUNTS = 4
CREDIT_NANO_USD = 10**15
# Never reached; there only so that every request passes the limits, and that slots are counted.
CONCURRENCY, RPM = 1_000, 1_000_000
# The kernel tosses which process gets a connection: one that gets none of so many is one too few.
ACQUAINTED_AFTER = 32
# More than what a fault's calls, their attempts and polls come to.
REQUESTS_KEPT = 100_000
# How long a Redis that is away delays a request, once: a machine shared with others is slow.
REDIS_SECONDS = 0.2
SETTINGS: Mapping[str, Any] = {
    "drain_seconds": 20,
    "worker_silence_seconds": 5,
    "shed_delay_ms": 0,
    # Ten times what a call takes: the machine may be busy. Less than a drain.
    "timeouts": {
        "chat": 18,
        "image_attempt": 12,
        "image_total": 18,
        "video_submit": 12,
        "task_poll": 2,
    },
    "tasks": {"poll_first": 0.5, "poll_max": 1, "lease": 3},
}
HEALTH = {"failures": 5, "cooldown": 1}


def usd(nano_usd: int, count: int = 1) -> str:
    """A price of the configuration: of so many for which one costs so much."""
    return format(nano_usd * count / 1e9, "f")


def channels() -> list[dict[str, Any]]:
    """Three, one of which speaks no chat and is reached by translation."""
    spoken = (["chat", "messages"], ["chat"], ["messages"])
    return [
        channel(name, protocols=[*protocols, "videos", "images"], priority=at, health=HEALTH)
        for at, (name, protocols) in enumerate(zip(("one", "two", "three"), spoken, strict=True))
    ]


def models() -> list[dict[str, Any]]:
    """What the load asks for."""
    names = ("one", "two", "three")
    chat = {"input": usd(calls.INPUT, 10**6), "output": usd(calls.OUTPUT, 10**6)}
    picture = {"endpoint_type": "images_generations", "price": {"per_image": usd(calls.PICTURE)}}
    film = {"endpoint_type": "videos_generations", "price": {"per_second": usd(calls.SECOND)}}
    return [
        model("sim-model", *names, price=chat, max_output_tokens=10**7),
        model("picture", *names, **picture),
        model("film", *names, **film),
    ]


# Every call holds on these, and `gw ledger verify` adds them up; their limit refuses nothing.
BUDGETS = (
    ("account", "month", "refuse"),
    ("every_user", "day", "refuse"),
    ("account", "day", "warn"),
)


@dataclass(kw_only=True)
class Stack(Installation):
    """Everything, and how to do harm to it."""

    folder: Path
    upstream: Upstream
    valkey: MortalValkey
    port: int
    admin_ports: tuple[int, int]  # one for a gateway, one for the next
    log_file: Path | None = None
    gateway: Unit = field(init=False)
    tenants: Sequence[Tenant] = ()
    own_time: OwnTime = field(init=False)  # of everything
    _at: int = 0  # of `admin_ports`

    def __post_init__(self) -> None:
        self.own_time = OwnTime(self._pids)

    @property
    def database_url(self) -> str:
        """Where the gateway's rows are."""
        url: str = self.settings["database_url"]
        return url

    @property
    def admin(self) -> Admin:
        """The admin listener of the gateway of the moment."""
        return Admin(f"http://127.0.0.1:{self.admin_ports[self._at]}")

    async def start(self) -> None:
        """Start the gateway, and give it accounts. Raises NotReady."""
        self.write()
        self.gateway = self._unit()
        try:
            await self.gateway.start()
            self.tenants = await asyncio.to_thread(self._make_tenants)
            await self._acquaint()
        except BaseException:
            self.gateway.close()
            raise

    async def replace(self) -> int:
        """Let another gateway take this one's place, as `ops/running.md` has it; exit code."""
        old = self.gateway
        self._at = 1 - self._at
        self.gateway = self._unit()
        try:
            await self.gateway.start()
        finally:
            code = await old.stop()
        self.gateway.follow(old)
        return code

    def kill_gateway(self) -> None:
        """Kill its parent and its workers; it is started again."""
        self.gateway.process.kill_all()

    def kill_postgres(self) -> None:
        """As the kernel does that is out of memory; it is started again within a second or two."""
        kill_server(self.folder)

    async def page(self) -> Page:
        """The metrics of all processes of the gateway."""
        return await asyncio.to_thread(lambda: self.admin.page())

    async def serves(self) -> None:
        """Wait until one of the gateway's processes serves clients. Raises NotReady."""
        if not await self.own_time.until(self._is_served, READY_SECONDS):
            log = self.gateway.process.log()
            raise NotReady(f"nothing serves on port {self.port} ({self.own_time!r}):\n{log}")

    async def _is_served(self) -> bool:
        try:
            return (await self.free_places())[0] > 0
        except OSError:
            return False

    async def free_places(self) -> list[int]:
        """How many more requests each account may have in flight, by a free request of each."""
        left = []
        for tenant in self.tenants:
            headers = {"Authorization": f"Bearer {tenant.key}"}
            response = await exchange(tenant.client.url, "GET", "/v1/models", headers=headers)
            left.append(int(response.headers.get("x-ratelimit-remaining-concurrency", "-1")) + 1)
        return left

    async def _acquaint(self) -> None:
        """Let each process serve each account once.

        Without the database a process knows the keys that it has seen, and only those.
        """
        for _ in range(ACQUAINTED_AFTER):
            await self.free_places()

    def _unit(self) -> Unit:
        port = self.admin_ports[self._at]
        admin = Admin(f"http://127.0.0.1:{port}")

        async def why_not_ready() -> str:
            try:
                response = await asyncio.to_thread(admin.get, "/readyz")
            except OSError as error:
                return f"/readyz: {error!r}"
            return "" if response.status == 200 else f"/readyz: {response.body.decode()}"

        def start() -> Process:
            environ = {**self.environ, "GW_ADMIN_PORT": str(port)}
            command = self.site.module(serve(self.config, self.processes))
            return Process(command, environ=environ, log_file=self.log_file)

        return Unit(start, why_not_ready=why_not_ready, own_time=self.own_time)

    def _pids(self) -> list[int]:
        postmaster = Postmaster.read(self.folder / "postgres" / "data")
        server = [] if postmaster is None else tree(postmaster.pid)
        return [*tree(os.getpid()), *server]

    def _make_tenants(self) -> list[Tenant]:
        registrar = Registrar(self.database_url, SECRET, f"http://127.0.0.1:{self.port}")
        given = {"nano_usd": CREDIT_NANO_USD, "rpm": RPM, "concurrency": CONCURRENCY}
        tenants = [registrar.tenant(**given) for _ in range(ACCOUNTS)]
        with closing(psycopg2.connect(self.database_url)) as connection, connection:
            cursor = connection.cursor()
            for number, (scope, period, action) in enumerate(BUDGETS):
                cursor.execute(
                    "INSERT INTO budgets (id, account_id, name, scope, limit_nano_usd, period,"
                    " action, made_by) SELECT 'bud_' || %(number)s || id, id, %(number)s,"
                    " %(scope)s, %(limit)s, %(period)s, %(action)s, 'operator' FROM accounts",
                    {
                        "number": str(number),
                        "scope": scope,
                        "limit": CREDIT_NANO_USD,
                        "period": period,
                        "action": action,
                    },
                )
        return tenants


@asynccontextmanager
async def running(seed: int, **settings: Any) -> AsyncIterator[Stack]:
    """Everything but the gateway, which `Stack.start` starts; gone afterwards."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        more = ["--requests-kept", str(REQUESTS_KEPT)]
        simulator = SimulatorProcess(*more, seed=seed, is_heard=True)
        stack.enter_context(until_end(simulator))
        valkey = stack.enter_context(mortal_valkey(folder))
        embedded = EmbeddedPostgres(folder)
        url = await embedded.start()
        stack.push_async_callback(embedded.stop)
        watching = asyncio.create_task(embedded.watch(SystemClock()))
        stack.callback(watching.cancel)
        port, *admin_ports = free_ports(3)
        written = {
            **SETTINGS,
            "listen": f"127.0.0.1:{port}",
            "admin_listen": "127.0.0.1:${GW_ADMIN_PORT}",
            "data_dir": str(folder / "var"),
            "database_url": url,
            "redis_url": f"{valkey.url}?socket_timeout={REDIS_SECONDS}",
            "secret": SECRET,
            "channels": channels(),
            "models": models(),
            **settings,
        }
        yield Stack(
            folder / "gw.yaml",
            written,
            simulator.url,
            processes=PROCESSES,
            folder=folder,
            upstream=Upstream(simulator.url),
            valkey=valkey,
            port=port,
            admin_ports=(admin_ports[0], admin_ports[1]),
        )

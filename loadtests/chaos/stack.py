"""What a fault can hit, running: a gateway of two processes, PostgreSQL, Redis and the upstream.

A process is started again when it dies, as systemd does with a unit's main process. What it leaves
behind is left alone: worker processes whose parent was killed find out themselves.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.clock import SystemClock
from actors.store.embedded.postgres import EmbeddedPostgres
from loadtests.chaos import calls
from loadtests.rig.async_connection import exchange
from loadtests.rig.deployment import SECRET, channel, model
from loadtests.rig.folders import temporary_folder
from loadtests.rig.machine import available_cores, children, free_ports
from loadtests.rig.scrape import Admin, Page
from loadtests.rig.servers import kill_server
from loadtests.rig.targets import started
from loadtests.rig.tenants import Registrar, Tenant
from loadtests.rig.upstream import Upstream
from loadtests.rig.valkey import MortalValkey, mortal_valkey

# RestartSec of `ops/systemd/model-gateway.service`.
RESTART_SECONDS = 2.0
READY_SECONDS = 60.0
POLL_SECONDS = 0.1
STOP_SECONDS = 60.0
PIPE_BYTES = 4096
REST_SECONDS = 1.0  # for the last lines of its log
LINES_KEPT = 10_000


class NotReady(Exception):
    """A process ended, or waited too long, before it served."""


class Unit:
    """`python -m ARGUMENTS`, kept running. Its log is read line by line, or goes to a file."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        is_ready: Callable[[], Awaitable[bool]],
        environ: Mapping[str, str],
        log_file: Path | None = None,
    ) -> None:
        self._command = [sys.executable, "-m", *arguments]
        self._is_ready = is_ready
        self._environ = {**os.environ, **environ}
        self.log_file = log_file
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.restart_seconds = RESTART_SECONDS
        self._reading = asyncio.Event()
        self._reading.set()
        self._tasks: set[asyncio.Task[None]] = set()  # that read its log
        self._process: asyncio.subprocess.Process
        self._keeper: asyncio.Task[None]

    @property
    def pid(self) -> int:
        """The process itself, which was started last."""
        return self._process.pid

    @property
    def workers(self) -> list[int]:
        """Its processes that serve."""
        return children(self.pid)

    async def start(self) -> None:
        """Start it, and keep it running from then on. Raises NotReady."""
        await self._spawn()
        await self.ready()
        self._keeper = asyncio.create_task(self._keep())

    async def ready(self) -> None:
        """Wait until it serves. Raises NotReady."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await self._is_ready():
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            log = "\n".join([*self.lines][-20:])
            raise NotReady(f"{' '.join(self._command)} does not serve:\n{log}") from None

    async def stop(self) -> int:
        """End it with SIGTERM; returns its exit code."""
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        self._process.terminate()
        try:
            return await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            return -1
        finally:
            self._reading.set()
            self.close()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=REST_SECONDS)

    def close(self) -> None:
        """Make sure that it is gone, with what it has started."""
        if self._process.returncode is None:
            for pid in [self.pid, *self.workers]:
                os.kill(pid, 9)

    def pause_reading(self) -> None:
        """Read nothing of its log any more; the pipe is as small as it can be."""
        self._reading.clear()
        pipe = self._process._transport.get_pipe_transport(2)  # type: ignore[attr-defined]
        fcntl.fcntl(pipe.get_extra_info("pipe"), fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def go_on_reading(self) -> None:
        """Read its log again."""
        self._reading.set()

    async def _spawn(self) -> None:
        nothing = asyncio.subprocess.DEVNULL
        with ExitStack() as stack:
            log: Any = asyncio.subprocess.PIPE
            if self.log_file is not None:
                log = stack.enter_context(self.log_file.open("ab"))
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=nothing,
                stdout=nothing,
                stderr=log,
                env=self._environ,
                limit=PIPE_BYTES,
            )
        if self._process.stderr is not None:
            self._tasks.add(asyncio.create_task(self._read(self._process.stderr)))

    async def _read(self, log: asyncio.StreamReader) -> None:
        rest = b""
        while data := await log.read(PIPE_BYTES):
            await self._reading.wait()
            *whole, rest = (rest + data).split(b"\n")
            self.lines.extend(line.decode(errors="replace") for line in whole)

    async def _keep(self) -> None:
        while True:
            await self._process.wait()
            await asyncio.sleep(self.restart_seconds)
            await self._spawn()


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
    "timeouts": {
        "chat": 6,
        "image_attempt": 4,
        "image_total": 6,
        "video_submit": 4,
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


@dataclass
class Stack:
    """Everything, and how to do harm to it."""

    folder: Path
    settings: dict[str, Any]
    upstream: Upstream
    database_url: str
    valkey: MortalValkey
    port: int
    admin_ports: tuple[int, int]  # one for a gateway, one for the next
    environ: Mapping[str, str] = field(default_factory=dict)
    log_file: Path | None = None
    gateway: Unit = field(init=False)
    tenants: Sequence[Tenant] = ()
    _at: int = 0  # of `admin_ports`

    @property
    def config(self) -> Path:
        """The configuration's file."""
        return self.folder / "gw.yaml"

    @property
    def admin(self) -> Admin:
        """The admin listener of the gateway of the moment."""
        return Admin(f"http://127.0.0.1:{self.admin_ports[self._at]}")

    async def start(self) -> None:
        """Start the gateway, and give it accounts. Raises NotReady."""
        self.config.write_text(json.dumps(self.settings), encoding="utf-8")  # JSON is YAML
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
        self.gateway.lines.extendleft(reversed(old.lines))
        return code

    def kill_gateway(self) -> None:
        """Kill its parent and its workers; it is started again."""
        for pid in (self.gateway.pid, *self.gateway.workers):
            os.kill(pid, signal.SIGKILL)

    def kill_postgres(self) -> None:
        """As the kernel does that is out of memory; it is started again within a second or two."""
        kill_server(self.folder)

    async def page(self) -> Page:
        """The metrics of all processes of the gateway."""
        return await asyncio.to_thread(lambda: self.admin.page())

    async def serves(self) -> None:
        """Wait until one of the gateway's processes serves clients. Raises NotReady."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await self._is_served():
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise NotReady(f"nothing serves on port {self.port}") from None

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

        async def is_ready() -> bool:
            try:
                return (await asyncio.to_thread(admin.get, "/readyz")).status == 200
            except OSError:
                return False

        serve = ["gw", "serve", "--config", str(self.config), "--processes", str(PROCESSES)]
        environ = {**self.environ, "GW_ADMIN_PORT": str(port)}
        return Unit(serve, is_ready=is_ready, environ=environ, log_file=self.log_file)

    def _make_tenants(self) -> list[Tenant]:
        registrar = Registrar(self.database_url, SECRET, f"http://127.0.0.1:{self.port}")
        given = {"nano_usd": CREDIT_NANO_USD, "rpm": RPM, "concurrency": CONCURRENCY}
        return [registrar.tenant(**given) for _ in range(ACCOUNTS)]


@asynccontextmanager
async def running(seed: int, **settings: Any) -> AsyncIterator[Stack]:
    """Everything but the gateway, which `Stack.start` starts; gone afterwards."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        cores = frozenset(available_cores())
        arguments = ["--seed", str(seed), "--requests-kept", str(REQUESTS_KEPT)]
        simulator = started(["loadtests.simulator", *arguments], cores)
        _, words = stack.enter_context(simulator)
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
        for one in written["channels"]:
            one.setdefault("base_url", words["listen"])
        upstream = Upstream(words["listen"])
        yield Stack(folder, written, upstream, url, valkey, port, (admin_ports[0], admin_ports[1]))

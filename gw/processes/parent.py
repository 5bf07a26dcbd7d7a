"""The parent of several gateway processes, from start to exit (running.md: Processes, hosts,
poolers).

It serves no client: it reserves the port, keeps the workers running, and serves the admin listener
for all of them. The workers share the port; the kernel distributes connections.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, closing
from pathlib import Path

from prometheus_client.exposition import choose_encoder

from actors.clock import SystemClock
from actors.parent.server import ParentServer
from channels.errors import UpstreamError, UpstreamLost, UpstreamUnreachable
from channels.http.client import HttpClient
from channels.http.interfaces import UpstreamRequest
from channels.open_files import raise_open_files
from gw import run, service_manager
from gw.api.admin.server import REPLAYED_HEADER
from gw.api.call_ids import new_call_id
from gw.config.addresses import ListenAddress
from gw.config.certificate import renew, server_context
from gw.config.config import Config
from gw.config.credentials import check_files
from gw.config.faults import ConfigFaults
from gw.config.load import load_text, reread_text
from gw.errors import RETRY_AFTER
from gw.http import admin_api
from gw.http.admin import READY, AdminServer, make_admin_application
from gw.http.listening_sockets import bind
from gw.processes.fleet import Fleet
from gw.processes.metrics_page import END, merged
from gw.processes.parent_metrics import FleetMetrics
from gw.processes.worker import Worker
from metrics.logs import EventLog, set_level, write_line

ASK_SECONDS = 3.0
# Bound of one worker's page of metrics, far above that of all series.
PAGE_BYTES_MAX = 64 * 1024 * 1024
# Timeout of the admin API: a change waits this long for every process to apply it.
ADMIN_SECONDS = 60.0
# Proves to the workers that the parent reports a client's address.
_PROOF = secrets.token_hex(32)
# Headers of a request to the admin API that are forwarded to a worker.
_ADMIN_HEADERS = ("Authorization", "Content-Type", "Idempotency-Key")

# The label `process` of series that parent and workers both have.
PARENT = "parent"


class Parent:
    """The fleet with its port and its admin listener. `config` is `text`, parsed."""

    def __init__(self, config: Config, text: str, *, count: int) -> None:
        self._config = config
        self._reloading = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._log = EventLog("gw.processes")
        self._metrics = FleetMetrics()
        self._clock = SystemClock()
        self._fleet = Fleet(
            text,
            count=count,
            start=self._start_worker,
            silence_seconds=config.worker_silence_seconds,
            clock=self._clock,
            metrics=self._metrics,
        )
        self._shared = ParentServer(self._clock)
        self._is_draining = False
        self._address = config.listen
        self._tls: ssl.SSLContext | None = None
        self.listen_url = ""
        self.admin_url = ""
        self._http = HttpClient(connect_seconds=ASK_SECONDS)

    async def start(self) -> None:
        """Start all parts. Raises WorkerFailed or OSError, after stopping them."""
        set_level(self._config.log_level)
        self._metrics.config.started(self._clock.now())
        run.log_cautions(self._config)
        self._tls = server_context(self._config)
        try:
            # Bound and never listening: it reserves the port for the workers.
            scheme = "http" if self._config.tls is None else "https"
            sockets, self.listen_url = bind(
                self._config.listen, "listen", scheme=scheme, shares_port=True, is_open=False
            )
            for sock in sockets:
                self._stack.callback(sock.close)
            self._address = ListenAddress(self._config.listen.host, _port_of(sockets[0]))
            self._stack.push_async_callback(self._http.close)
            application = make_admin_application(
                self._config,
                render=self._render,
                readiness=self._readiness,
                new_id=new_call_id,
                respond=self._respond,
            )
            admin = AdminServer(application, self._config.admin_listen, tls=self._tls)
            self._stack.push_async_callback(admin.close)
            self._stack.callback(self._shared.close)
            sweeping = asyncio.create_task(self._forget_idle())
            self._stack.callback(sweeping.cancel)
            await self._fleet.start_workers()
            await admin.start()
            self.admin_url = admin.url
        except BaseException:
            await self._stack.aclose()
            raise

    async def reload(self) -> None:
        """Reload the workers one by one, unless the file has a fault (running.md: Reloading)."""
        async with self._reloading:
            try:
                # In a thread: a large file takes seconds, while workers wait for replies.
                text, config = await asyncio.to_thread(accepted_file, self._config.source)
                renew(self._tls, config)
            except ConfigFaults as faults:
                self._metrics.config.refused()
                self._log.error("reload_refused", faults=[str(fault) for fault in faults.faults])
                return
            if not await self._fleet.reload(text):
                self._metrics.config.refused()
                return
            self._metrics.config.accepted(self._clock.now())
            set_level(config.log_level)
            self._log.info("configuration_reloaded")
            run.log_reload(self._config, config)

    async def stop(self) -> int:
        """Drain all workers and end; return the combined exit code."""
        self._is_draining = True
        codes = await self._fleet.stop_workers()
        await self._stack.aclose()
        self._log.info("stopped")
        if run.EXIT_UNSETTLED in codes:
            return run.EXIT_UNSETTLED
        return run.EXIT_FAILED if any(codes) else run.EXIT_OK

    async def _start_worker(self, text: str) -> Worker:
        arguments = [
            *(
                "--config",
                str(self._config.source),
            ),
            *("--worker", str(self._address)),
        ]
        ours, theirs = socket.socketpair()
        with theirs:
            await self._shared.attach(ours)
            descriptor = theirs.fileno()
            return await Worker.start(
                [*arguments, "--parent-socket", str(descriptor)],
                text=text,
                descriptors=(descriptor,),
                environ={**service_manager.inherited(), admin_api.PROOF_VARIABLE: _PROOF},
            )

    async def _forget_idle(self) -> None:
        while True:
            await self._clock.sleep(1.0)
            self._shared.forget_idle()

    # --- The admin listener ---

    async def _render(self, accept: str) -> tuple[bytes, str]:
        pages = await asyncio.gather(
            *(self._ask(worker, "/metrics", accept) for worker in self._fleet.workers)
        )
        named = [(str(index), page) for index, (_, page) in enumerate(pages) if page]
        named.append((PARENT, self._metrics.render_config(accept)))
        # In a thread: the workers wait for replies of this loop.
        return await asyncio.to_thread(joined, self._metrics.render(accept), named, accept=accept)

    async def _readiness(self) -> Mapping[str, str]:
        if self._is_draining:
            return {"status": "draining"}
        responses = await asyncio.gather(
            *(self._ask(worker, "/readyz") for worker in self._fleet.workers)
        )
        late = [str(index) for index, (status, _) in enumerate(responses) if status != 200]
        body = {"status": f"not ready: process {', '.join(late)}" if late else READY}
        # A worker's body is one of this program's own.
        bare = [str(index) for index, (_, page) in enumerate(responses) if '"recorder"' in page]
        if bare:
            body["recorder"] = f"off: process {', '.join(bare)}"
        for _, page in responses:
            if '"database"' in page:
                body["database"] = json.loads(page)["database"]
                break
        return body

    async def _respond(self, request: admin_api.AdminRequest) -> admin_api.AdminResponse:
        """Forward a request to the admin API to the first reachable worker."""
        headers = [(name, value) for name in _ADMIN_HEADERS if (value := request.headers.get(name))]
        headers.append((admin_api.PEER_HEADER, f"{_PROOF} {request.address}"))
        path = f"{admin_api.PREFIX}{request.path}" + (f"?{request.query}" if request.query else "")
        message = "No process of the gateway can be reached."
        for worker in self._fleet.workers:
            if worker is None:
                continue
            sent = UpstreamRequest(
                request.method, worker.admin_url + path, tuple(headers), request.body
            )
            try:
                return await self._responded(sent)
            except (UpstreamError, TimeoutError) as error:
                self._log.warning("process_silent", pid=worker.pid, path=path, why=repr(error))
                if not isinstance(error, UpstreamUnreachable) or isinstance(error, UpstreamLost):
                    message = "The process that carried this out was lost; it may have been done."
                    break
        body = admin_api.error_body("process_unavailable", message, request.trace)
        return admin_api.AdminResponse(503, body, {"Retry-After": RETRY_AFTER})

    async def _responded(self, request: UpstreamRequest) -> admin_api.AdminResponse:
        async with asyncio.timeout(ADMIN_SECONDS):
            response = await self._http.open(request)
            with closing(response):
                body = await response.read(PAGE_BYTES_MAX)
        passed = ("x-gateway-trace", "Retry-After", "Allow", "WWW-Authenticate", REPLAYED_HEADER)
        headers = {name: value for name in passed if (value := response.header(name)) is not None}
        return admin_api.AdminResponse(response.status, body, headers)

    async def _ask(self, worker: Worker | None, path: str, accept: str = "*/*") -> tuple[int, str]:
        if worker is None:
            return 0, ""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                response = await self._http.open(
                    UpstreamRequest(
                        "GET", worker.admin_url + path, (("Accept", accept or "*/*"),), b""
                    )
                )
                with closing(response):
                    return response.status, (await response.read(PAGE_BYTES_MAX)).decode()
        except (UpstreamError, TimeoutError) as error:
            self._log.warning("process_silent", pid=worker.process.pid, path=path, why=repr(error))
            return 0, ""


def accepted_file(source: Path) -> tuple[str, Config]:
    """Return the text of a changed file, and its configuration. Raises ConfigFaults."""
    text = reread_text(source)
    config = load_text(text, os.environ, source=source)
    server_context(config)
    check_files(config)
    return text, config


def joined(own: str, pages: Iterable[tuple[str, str]], *, accept: str) -> tuple[bytes, str]:
    """Join the parent's metrics and those of its workers; return page and content type."""
    _, content_type = choose_encoder(accept)
    page = own.removesuffix(f"{END}\n") + merged(pages)
    if own.endswith(f"{END}\n"):
        page += f"{END}\n"
    return page.encode(), content_type


async def run_parent(
    config: Config,
    text: str,
    *,
    count: int,
    on_ready: Callable[[Parent], Awaitable[None]] | None = None,
) -> int:
    """Serve with `count` processes until SIGTERM or SIGINT; return the exit code."""
    raise_open_files()
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    parent = Parent(config, text, count=count)
    starting = asyncio.create_task(parent.start())
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return run.EXIT_OK
    await starting
    reloads: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = asyncio.create_task(parent.reload())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        write_line(f"ready listen={parent.listen_url} admin={parent.admin_url}")
        service_manager.notify(service_manager.READY)
        if on_ready is not None:
            await on_ready(parent)
        await waiting
    finally:
        service_manager.notify(service_manager.STOPPING)
        # Unfinished: systemd signals workers, too, and one that ends by it has no successor.
        for task in reloads:
            task.cancel()
        await asyncio.gather(*reloads, return_exceptions=True)
        code = await parent.stop()
    return code


def _port_of(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port

"""Runs N workers on one port: restarts dead ones, reloads and stops all of them in order.

Their metrics are merged to one page, with the parent's own.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.exposition import choose_encoder

from actors.clock import Clock
from metrics.families import Families
from metrics.groups.config import ConfigMetrics
from metrics.logs import EventLog, lines_lost

# One worker process as seen by its parent: a `gw serve` on the shared port.
#
# Parent and worker exchange lines of JSON. The parent sends `{"config": TEXT}`, at the start and
# for each reload: the text that it has accepted, because the file may have changed by the time that
# a worker has to be replaced. The worker sends `{"admin": …}` when it serves, `{"reloaded": …}`
# after each reload, and `{"alive": true}` from its loop at intervals: a silent worker hangs. A
# worker whose standard input is closed has lost its parent, and drains.

READY_SECONDS = 120.0
RELOAD_SECONDS = 30.0
ALIVE = {"alive": True}


class WorkerFailed(Exception):
    """A worker ended, or sent nothing, before it served."""


@dataclass(eq=False)
class Worker:
    """A running worker; `admin_url` is known once it serves."""

    process: asyncio.subprocess.Process
    admin_url: str = ""
    heard_at: float = field(default_factory=monotonic)  # time of the last line
    _replies: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    _reading: asyncio.Task[None] | None = None
    _log: EventLog = field(default_factory=lambda: EventLog("gw.processes"))

    def __repr__(self) -> str:
        return f"<Worker {self.process.pid} {self.admin_url or 'starting'}>"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    @classmethod
    async def start(
        cls,
        arguments: Sequence[str],
        *,
        text: str,
        descriptors: Sequence[int] = (),
        environ: Mapping[str, str] | None = None,
    ) -> Worker:
        """Start `gw serve` with the configuration `text` and wait until it serves.

        It inherits `descriptors` under their numbers. Raises WorkerFailed.
        """
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gw", "serve", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C signals the whole terminal; the parent signals its workers itself.
            start_new_session=True,
            pass_fds=descriptors,
            env=environ,
        )
        worker = cls(process)
        worker._reading = asyncio.create_task(worker._read())
        try:
            worker._post(text)
            reply = await worker._reply(READY_SECONDS)
        except BaseException:
            worker.kill()
            await worker.ended()
            raise
        worker.admin_url = reply["admin"]
        return worker

    async def reload(self, text: str) -> bool:
        """Apply another configuration; return False if refused. Raises WorkerFailed."""
        self._post(text)
        return bool((await self._reply(RELOAD_SECONDS))["reloaded"])

    def stop(self) -> None:
        """Let the worker drain and exit."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the worker."""
        self._signal(signal.SIGKILL)

    async def ended(self) -> int:
        """Wait for the worker's end; return its exit code."""
        code = await self.process.wait()
        if self._reading is not None:
            await asyncio.wait([self._reading])  # it continues when the waiting task is cancelled
        return code

    def _post(self, text: str) -> None:
        assert self.process.stdin is not None
        if self.process.returncode is None:
            self.process.stdin.write(json.dumps({"config": text}).encode() + b"\n")

    def _signal(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            try:
                self.process.send_signal(number)
            except ProcessLookupError:
                return  # it has ended meanwhile

    async def _reply(self, seconds: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                reply = await self._replies.get()
        except TimeoutError:
            raise WorkerFailed(f"process {self.process.pid} does not answer") from None
        if not reply:
            raise WorkerFailed(f"process {self.process.pid} has ended")
        return reply

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.heard_at = monotonic()
            try:
                reply = json.loads(line)
                if reply != ALIVE:
                    self._replies.put_nowait(reply)
            except ValueError:  # not ours: a library prints
                printed = line.decode(errors="replace").strip()
                self._log.warning("process_printed", pid=self.process.pid, line=printed)
        self._replies.put_nowait({})


# Merges the metrics of several processes: every series gets the label `process`.
#
# Nothing is aggregated: each metric needs another function, which the query chooses (`sum without
# (process) (…)`, `max without (process) (…)`).

# The end of a page of OpenMetrics.
END = "# EOF"
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{)?")


def merged(pages: Iterable[tuple[str, str]]) -> str:
    """Join pages of the text format 0.0.4, or of OpenMetrics, given as (process, page).

    Exemplars stay with their samples. The caller adds the end of an OpenMetrics page.
    """
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for process, page in pages:
        family = ""
        is_known = False
        for line in page.split("\n"):  # a label's value may contain any other line separator
            if line.startswith(("# HELP ", "# TYPE ", "# UNIT ")):
                name = line.split(" ", 3)[2]
                if name != family:
                    family, is_known = name, name in heads
                if not is_known:
                    heads.setdefault(name, []).append(line)
            elif line and not line.startswith("#"):
                samples.setdefault(family, []).append(labelled(line, process))
    lines: list[str] = []
    for name, head in heads.items():
        lines += head
        lines += samples.get(name, ())
    return "\n".join([*lines, ""])


def labelled(sample: str, process: str) -> str:
    """Return one sample with the label `process`, which is the first one."""
    found = _SAMPLE.match(sample)
    assert found is not None, sample
    label = f'process="{process}"'
    rest = sample[found.end() :]
    if found[2] is None:
        return f"{found[1]}{{{label}}}{rest}"
    return f"{found[1]}{{{label}{'' if rest.startswith('}') else ','}{rest}"


# The metrics of the parent itself.


class FleetMetrics:
    """The metrics of the parent."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        families = Families()
        self.config = ConfigMetrics(families)
        self._config_registry = CollectorRegistry()
        self._config_registry.register(families)
        ProcessCollector(registry=self._registry, namespace="gw_parent")
        self._running = Gauge(
            "gw_processes_running", "Worker processes that serve.", registry=self._registry
        )
        self._configured = Gauge(
            "gw_processes_configured",
            "Worker processes that there should be.",
            registry=self._registry,
        )
        self._restarts = Counter(
            "gw_process_restarts",
            "Worker processes started in place of one that died.",
            registry=self._registry,
        )
        self._hung = Counter(
            "gw_processes_hung",
            "Worker processes killed because their loop gave no sign of life.",
            registry=self._registry,
        )
        self._silent = Gauge(
            "gw_process_silent_seconds",
            "The longest that a worker process which serves has said nothing.",
            registry=self._registry,
        )
        self._log_lines_lost = Counter(
            "gw_parent_log_lines_lost",
            "Log lines that the parent itself could not write.",
            registry=self._registry,
        )
        self._lost_so_far = 0

    def configured(self, count: int) -> None:
        """Set the number of configured workers."""
        self._configured.set(count)

    def running(self, count: int) -> None:
        """Set the number of serving workers."""
        self._running.set(count)

    def hung(self) -> None:
        """Count a worker killed because it hung."""
        self._hung.inc()

    def silent(self, seconds: float) -> None:
        """Set the longest current silence of a worker."""
        self._silent.set(seconds)

    def restarted(self) -> None:
        """Count the restart of a dead worker."""
        self._restarts.inc()

    def render(self, accept: str = "") -> str:
        """Render the parent's own series, in the format that the scraper accepts."""
        lost = lines_lost()
        self._log_lines_lost.inc(lost - self._lost_so_far)
        self._lost_so_far = lost
        encode, _ = choose_encoder(accept)
        return encode(self._registry).decode()

    def render_config(self, accept: str) -> str:
        """Render series that workers have as well: a label separates them."""
        encode, _ = choose_encoder(accept)
        return encode(self._config_registry).decode()


# Kills workers that hang: each must send signs of life from its own loop.
#
# A worker that is stopped or blocked keeps its share of the port, and the kernel gives it further
# connections that are never served. The parent judges silence only while it was awake itself: after
# a pause it counts from its waking. Silence alone is no death: the worker is killed, and its
# replacement and the settlement of its calls begin when the kernel reports its end.

# Signs of life, and checks, within the tolerated silence; their interval is at most a second.
BEATS = 5
BEAT_SECONDS_MAX = 1.0


class Watched(Protocol):
    """A serving worker; `heard_at` is of the watch's clock."""

    @property
    def pid(self) -> int: ...

    @property
    def heard_at(self) -> float: ...

    @property
    def is_running(self) -> bool: ...

    def kill(self) -> None: ...


def beat_seconds(silence_seconds: float) -> float:
    """Return the interval of signs of life for a tolerated silence."""
    return min(BEAT_SECONDS_MAX, silence_seconds / BEATS)


class WorkerWatchdog:
    """Checks the current workers at intervals."""

    def __init__(
        self,
        *,
        workers: Sequence[Watched | None],
        silence_seconds: float,
        clock: Clock,
        metrics: FleetMetrics,
    ) -> None:
        self._workers = workers
        self._silence_seconds = silence_seconds
        self._clock = clock
        self._metrics = metrics
        self._killed: set[Watched] = set()  # and not yet ended
        self._log = EventLog("gw.processes")

    def __repr__(self) -> str:
        return (
            f"<WorkerWatchdog of {len(self._workers)} for {self._silence_seconds:g} s of silence>"
        )

    async def run(self) -> None:
        """Check until cancelled."""
        pause = beat_seconds(self._silence_seconds)
        looked_at = awake_since = self._clock.monotonic()
        while True:
            await self._clock.sleep(pause)
            now = self._clock.monotonic()
            if now - looked_at > 2 * pause:  # lines sent meanwhile have not been read yet
                awake_since = now
            looked_at = now
            self._look(now, awake_since)

    def _look(self, now: float, awake_since: float) -> None:
        present = [one for one in self._workers if one is not None and one.is_running]
        self._killed.intersection_update(present)
        longest = 0.0
        for worker in present:
            silence = now - max(worker.heard_at, awake_since)
            longest = max(longest, silence)
            if silence > self._silence_seconds and worker not in self._killed:
                self._killed.add(worker)
                self._metrics.hung()
                self._log.error("process_hung", pid=worker.pid, silent_seconds=round(silence, 1))
                worker.kill()
        self._metrics.silent(longest)


# Pauses before the restarts of a worker that fails repeatedly; the first one is immediate.
BACKOFF_SECONDS = (0.0, 0.5, 1.0, 2.0, 5.0)
# A worker that has lived for this long did not fail at its start.
SETTLED_SECONDS = 60.0


class Fleet:
    """The workers of one gateway, by their indexes 0 … N-1; `text` is their configuration."""

    def __init__(
        self,
        text: str,
        *,
        count: int,
        start: Callable[[str], Awaitable[Worker]],
        silence_seconds: float,
        clock: Clock,
        metrics: FleetMetrics,
    ) -> None:
        self._text = text  # the current one, whatever the file contains
        self._start = start
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("gw.processes")
        self._workers: list[Worker | None] = [None] * count
        self._keepers: list[asyncio.Task[None]] = []
        self._watch = WorkerWatchdog(
            workers=self._workers, silence_seconds=silence_seconds, clock=clock, metrics=metrics
        )
        self._watching: asyncio.Task[None] | None = None
        metrics.configured(count)

    def __repr__(self) -> str:
        return f"<Fleet {self._workers}>"

    @property
    def workers(self) -> Sequence[Worker | None]:
        """The worker at each index; None while it is being replaced."""
        return self._workers

    async def start(self) -> None:
        """Start all workers. Raises WorkerFailed, after stopping all, when one does not serve."""
        try:
            # The first one prepares the database and the secret for the others.
            await self._start_at(0)
            rest = [self._start_at(index) for index in range(1, len(self._workers))]
            results = await asyncio.gather(*rest, return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        except BaseException:
            await self.stop()
            raise
        self._watching = asyncio.create_task(self._watch.run())
        self._keepers = [
            asyncio.create_task(self._keep(index)) for index in range(len(self._workers))
        ]
        self._count()

    async def reload(self, text: str) -> bool:
        """Reload the workers one by one; False, and the rest unchanged, when one refuses."""
        self._text = text
        for index, worker in enumerate(list(self._workers)):
            if worker is None:
                continue  # `_start_at` applies it
            try:
                if not await worker.reload(text):
                    return False
            except WorkerFailed as failed:
                self._log.warning("reload_unanswered", place=index, why=str(failed))
        return True

    async def stop(self) -> list[int]:
        """Drain all workers at the same time; return their exit codes when the last has ended."""
        # First, the tasks that would replace a worker.
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        workers = [worker for worker in self._workers if worker is not None]
        for worker in workers:
            worker.stop()
        codes = [await worker.ended() for worker in workers]
        if self._watching is not None:  # until now: a worker may hang while it drains
            self._watching.cancel()
        return codes

    async def _start_at(self, index: int) -> None:
        text = self._text
        worker = await self._start(text)
        try:
            while text != self._text:  # a reload has missed it
                text = self._text
                await worker.reload(text)
        except BaseException:
            worker.kill()
            await worker.ended()
            raise
        self._workers[index] = worker

    async def _keep(self, index: int) -> None:
        """Replace the worker whenever it has ended, until the fleet stops."""
        failures = 0
        while True:
            worker = self._workers[index]
            assert worker is not None
            began = self._clock.monotonic()
            code = await worker.ended()
            self._workers[index] = None
            self._count()
            self._log.error("process_died", place=index, pid=worker.process.pid, code=code)
            if self._clock.monotonic() - began > SETTLED_SECONDS:
                failures = 0
            while self._workers[index] is None:
                await self._clock.sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
                failures += 1
                self._metrics.restarted()
                try:
                    await self._start_at(index)
                except (WorkerFailed, OSError) as failed:
                    self._log.error("process_not_started", place=index, why=str(failed))
            self._count()

    def _count(self) -> None:
        self._metrics.running(sum(worker is not None for worker in self._workers))

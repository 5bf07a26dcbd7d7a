"""The embedded PostgreSQL of one `data_dir`, shared by its processes.

`gw serve`, `gw demo` and the commands may use one folder at the same time: the first starts the
server, the last one stops it. `actors/store/database.py` connects.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from actors.clock import Clock
from actors.store.embedded.access import Access
from actors.store.embedded.binaries import find_binaries
from actors.store.embedded.cluster import Cluster
from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.identity import Identity, choose_identity
from actors.store.embedded.postmaster import Postmaster
from actors.store.embedded.socket_folder import remove_socket_folder
from actors.store.embedded.users import Users
from metrics.logs import EventLog

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
        binaries = find_binaries(os.environ, major=major)
        identity = choose_identity(
            data, home=self._data_dir, reached=(self._folder, binaries.folder)
        )
        return Cluster(self._folder, binaries=binaries, identity=identity, settings=self._settings)

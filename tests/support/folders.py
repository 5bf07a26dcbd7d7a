"""Temporary folders that a database server running as another user can enter.

pytest's own `tmp_path` lies below a folder that is closed to others; these do not. Their paths are
short enough for Unix sockets.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import stop_server

PREFIX = "gw-tests-"
LOCK = "in-use"
# Younger ones may belong to a run that has not locked its folder yet.
LEFTOVER_SECONDS = 60.0


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder; afterwards stop what database servers run in it and remove it."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    folder.chmod(0o711)
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            _remove(folder)


def remove_leftovers() -> None:
    """Remove the folders of test runs that were killed, with the servers still running in them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            status = folder.stat()
            if status.st_uid != os.geteuid() or time.time() - status.st_mtime < LEFTOVER_SECONDS:
                continue
            with (folder / LOCK).open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
        except (FileNotFoundError, BlockingIOError):
            continue  # removed by another run, or in use by one


def _remove(folder: Path) -> None:
    for pid_file in folder.rglob("postmaster.pid"):
        stop_server(pid_file.parent)
    shutil.rmtree(folder)

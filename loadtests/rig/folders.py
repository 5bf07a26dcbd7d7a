"""Temporary folders that a database server running as another user can enter.

pytest's own `tmp_path` lies below a folder that is closed to others; these do not. Their paths are
short enough for Unix sockets.
"""

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtests.rig.servers import stop_server

PREFIX = "gw-tests-"
LOCK = "in-use"
# Younger ones may belong to a run that has not locked its folder yet.
LEFTOVER_SECONDS = 60.0
# What a socket's path, about a hundred bytes, leaves of it for the folder that all lie in.
PARENT_BYTES_MAX = 50
# Databases are thousands of small files that live for a second: some file systems make a new one
# the slower the more were just removed. Memory does not, if it has room for what a run leaves open.
MEMORY = Path("/dev/shm")
MEMORY_INFO = Path("/proc/meminfo")
MEMORY_ROOM_BYTES = 6 * 2**30


@contextmanager
def temporary_folder(*, in_memory: bool = False) -> Iterator[Path]:
    """Yield a new folder; afterwards stop what database servers run in it and remove it.

    In memory it lies only where that has room; who measures what a disk does wants it elsewhere.
    """
    parent = MEMORY if in_memory and _has_room(MEMORY) else parent_folder()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    folder.chmod(0o711)
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            _remove(folder)


def parent_folder() -> Path:
    """Where the folders lie: in $TMPDIR, unless servers could not work there.

    Others may not enter it, its path may be too long for a socket, or have what their configuration
    takes for something else.
    """
    wanted = Path(tempfile.gettempdir()).absolute()
    is_plain = re.fullmatch(r"[A-Za-z0-9_./+-]*", str(wanted)) is not None
    is_open = all(folder.stat().st_mode & 0o001 for folder in (wanted, *wanted.parents))
    fits = is_plain and is_open and len(os.fsencode(wanted)) <= PARENT_BYTES_MAX
    return wanted if fits else Path("/tmp")


def remove_leftovers() -> None:
    """Remove the folders of test runs that were killed, with the servers still running in them."""
    for folder in (*parent_folder().glob(f"{PREFIX}*"), *MEMORY.glob(f"{PREFIX}*")):
        try:
            status = folder.stat()
            if status.st_uid != os.geteuid() or time.time() - status.st_mtime < LEFTOVER_SECONDS:
                continue
            with (folder / LOCK).open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
        except (FileNotFoundError, BlockingIOError):
            continue  # removed by another run, or in use by one


def _has_room(memory: Path) -> bool:
    """Whether it is open to all, and neither its end nor the machine's is near."""
    if not memory.is_dir() or memory.stat().st_mode & 0o003 != 0o003:
        return False
    told = re.search(r"^MemAvailable: +(\d+) kB$", MEMORY_INFO.read_text(), re.MULTILINE)
    available = int(told[1]) * 1024 if told else 0
    return min(shutil.disk_usage(memory).free, available) >= MEMORY_ROOM_BYTES


def _remove(folder: Path) -> None:
    for pid_file in folder.rglob("postmaster.pid"):
        stop_server(pid_file.parent)
    shutil.rmtree(folder)

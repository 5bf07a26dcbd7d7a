"""Files that a running process reads: a read that cannot block, and has a limit.

A path may come to name a pipe without a writer, a device or a file that never ends: secret agents
put such things in place. Opened as usual, they would stop the event loop, or hold a thread that
nothing can end. A file's fault is an OSError with the reason.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

# Of certificates, keys and tokens; the largest are bundles of CAs, of some 250 KB.
CREDENTIAL_BYTES_MAX = 4 * 1024 * 1024


def read_regular(path: str | Path, bytes_max: int = CREDENTIAL_BYTES_MAX) -> bytes:
    """Return the content of a regular file.

    Raises OSError, also for anything but a regular file and for more than `bytes_max`, and
    ValueError for a path that no system can have.
    """
    # Without O_NONBLOCK the open itself waits for a pipe's writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(bytes_max + 1)
    finally:
        os.close(descriptor)
    return bounded(content, bytes_max, path)


def bounded(content: bytes, bytes_max: int, path: str | Path) -> bytes:
    """Return what was read of a file, up to a byte more than it may have. Raises OSError."""
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"more than {bytes_max} bytes", str(path))
    return content


def check_regular(*paths: str | Path) -> None:
    """Read files that a library reads again by their paths, as OpenSSL does with a key's."""
    for path in paths:
        read_regular(path)

"""The folder of the server's Unix socket: beside the data, or else a short private folder.

A socket's path is limited to about a hundred bytes, and commas and quotes have a meaning to
PostgreSQL. The other folder is recorded in a file, so that every process finds it.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.identity import Identity

SOCKET_NAME = ".s.PGSQL.5432"
# macOS allows 103 bytes, Linux 107.
PATH_MAX_BYTES = 103
RECORD = "socket_folder"


def socket_folder(folder: Path, identity: Identity) -> Path:
    """Return the folder for the socket of the cluster in `folder`; create it if needed.

    Raises EmbeddedFault if no folder is short enough.
    """
    beside = folder / "run"
    if _fits(beside):
        identity.make_folder(beside)
        return beside
    remembered = _remembered(folder / RECORD, identity)
    if remembered is not None:
        return remembered
    for parent in (Path(tempfile.gettempdir()).absolute(), Path("/tmp")):
        if _fits(parent / "gw-pg-12345678") and identity.can_enter(parent):
            made = Path(tempfile.mkdtemp(prefix="gw-pg-", dir=parent))
            if identity.is_switched:
                os.chown(made, identity.uid, identity.gid)
            (folder / RECORD).write_text(str(made))
            return made
    raise EmbeddedFault(
        f"the path of {folder} is too long for a Unix socket; choose a shorter data_dir"
    )


def remove_stale_lock(sockets: Path) -> None:
    """Remove a killed server's lock file; call it only without a running server.

    Its process number, as that in `postmaster.pid`, may be another process's by now.
    """
    (sockets / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)


def remove_socket_folder(folder: Path) -> None:
    """Remove the socket's other folder, if there is one, after the server has stopped."""
    record = folder / RECORD
    try:
        made = Path(record.read_text())
        made.rmdir()
    except OSError:
        return  # none, or not empty: it is small and private, and is used again
    record.unlink()


def _fits(folder: Path) -> bool:
    path = str(folder / SOCKET_NAME)
    is_plain = re.fullmatch(r"[A-Za-z0-9_./ +=@:-]*", path) is not None
    return is_plain and len(os.fsencode(path)) <= PATH_MAX_BYTES


def _remembered(record: Path, identity: Identity) -> Path | None:
    try:
        folder = Path(record.read_text())
        status = folder.lstat()
    except OSError:
        return None
    # Another user may have created this name in a shared folder after the first one was removed.
    is_private = status.st_uid == identity.uid and status.st_mode & 0o7777077 == 0o40000
    return folder if is_private else None

"""The audit of views: each display of a stored key's text is recorded first.

Reference 1.3. The text printed once by `gw key create` is no view; every later one is.
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from actors.store.session import Statements
from gw.keys.store import SQL


@dataclass(frozen=True, slots=True)
class Viewer:
    """The viewer, as known to the operating system."""

    os_user: str
    host: str

    @classmethod
    def of_this_process(cls, environ: Mapping[str, str] = os.environ) -> Viewer:
        """Return the user of this process, and the user who ran it by `sudo`."""
        uid = os.getuid()
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:  # a container's user without a name
            user = f"uid {uid}"
        behind = environ.get("SUDO_USER", "")
        if uid == 0 and behind:  # only root's environment is trusted
            user = f"{behind} as {user}"
        return cls(user, socket.gethostname())


@dataclass(frozen=True, slots=True)
class KeyTextView:
    """One view of a key."""

    viewed_at: datetime
    os_user: str
    host: str


async def note_view(store: Statements, key_id: str, viewer: Viewer) -> None:
    """Record that the text of this key is about to be shown."""
    await store.execute(SQL["note_view"], (key_id, viewer.os_user, viewer.host))


async def note_views(store: Statements, key_ids: Sequence[str], viewer: Viewer) -> None:
    """Record that the texts of these keys are about to be shown."""
    params = {"ids": list(key_ids), "os_user": viewer.os_user, "host": viewer.host}
    await store.execute(SQL["note_views"], params)


async def views_of(store: Statements, key_id: str) -> list[KeyTextView]:
    """Return every view of a key, oldest first."""
    return [KeyTextView(*row) for row in await store.fetch_all(SQL["views"], (key_id,))]

"""The audit of views: a showing of a stored key's text is written down first.

Spec: Authentication 8. The text that `gw key create` prints once is no view; every later one is.
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from actors.store.session import Statements
from gw.keys.store import SQL


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks, as the operating system knows them."""

    os_user: str
    host: str

    @classmethod
    def of_this_process(cls, environ: Mapping[str, str] = os.environ) -> Viewer:
        """The user this process runs as, and who became that user by `sudo`."""
        uid = os.getuid()
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:  # a container's user without a name
            user = f"uid {uid}"
        behind = environ.get("SUDO_USER", "")
        if uid == 0 and behind:  # only root's word counts
            user = f"{behind} as {user}"
        return cls(user, socket.gethostname())


@dataclass(frozen=True, slots=True)
class View:
    """One view of a key."""

    viewed_at: datetime
    os_user: str
    host: str


async def note_view(store: Statements, key_id: str, viewer: Viewer) -> None:
    """Write down that the text of this key is about to be shown."""
    await store.execute(SQL["note_view"], (key_id, viewer.os_user, viewer.host))


async def views_of(store: Statements, key_id: str) -> list[View]:
    """Every view of a key, oldest first."""
    return [View(*row) for row in await store.fetch_all(SQL["views"], (key_id,))]

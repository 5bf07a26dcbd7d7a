"""What a process does when the database pushes a change (`actors/changes.py`)."""

from __future__ import annotations

import asyncio

from actors.limits.limiter import Limiter
from gw.keys.cache import KeyCache


class Pushes:
    """Hands each push to whom it concerns: keys and accounts, limits, jobs."""

    def __init__(self, *, keys: KeyCache, limiter: Limiter, jobs_changed: asyncio.Event) -> None:
        self._keys = keys
        self._limiter = limiter
        self._jobs_changed = jobs_changed

    def __repr__(self) -> str:
        return f"<Pushes {self._keys!r}>"

    def take(self, payload: str) -> None:
        """A change: `key:<id>`, `account:<id>`, `agent:<id>` or `job:<id>`."""
        kind, _, name = payload.partition(":")
        if kind == "job":
            self._jobs_changed.set()
            return
        self._keys.invalidate(payload)
        if kind == "account":  # perhaps it has a limit now that it had not before
            self._limiter.share(name)

    def lost(self) -> None:
        """Believe nothing known so far: pushes may have been missed."""
        self._jobs_changed.set()
        self._keys.clear()
        self._limiter.share_all()

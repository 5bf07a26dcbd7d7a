"""Handles the database's pushes of changes (`actors/changes.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from actors.limits.limiter import Limiter
from actors.webhooks.nudges import Nudges
from gw.calls import served_models
from gw.keys.cache import KeyCache


class Pushes:
    """Passes each push to its consumers: keys and accounts, limits, jobs, channels, events."""

    def __init__(
        self,
        *,
        keys: KeyCache,
        limiter: Limiter,
        jobs_changed: asyncio.Event,
        webhooks: Nudges,
        channel_changed: Callable[[str], None] = lambda channel_id: None,
        served: Callable[[str], None] = lambda told: None,
    ) -> None:
        self._channel_changed = channel_changed
        self._served = served
        self._keys = keys
        self._limiter = limiter
        self._jobs_changed = jobs_changed
        self._webhooks = webhooks

    def take_push(self, payload: str) -> None:
        """Handle a change: `key:<id>`, `account:<id>`, `agent:<id>`, `job:<id>`, `channel:<id>`,
        `webhook:<id>`, `event:`, `served:…` (`gw/calls/served_models.py`)."""
        kind, _, name = payload.partition(":")
        if kind == "job":
            self._jobs_changed.set()
            return
        if kind == "event":
            self._webhooks.written()
            return
        if kind == "webhook":
            self._webhooks.changed()
            return
        if kind == "channel":
            self._channel_changed(name)
            return
        if kind == served_models.KIND:
            self._served(name)
            return
        self._keys.invalidate(payload)
        if kind == "account":  # perhaps its limits changed
            self._limiter.share(name)

    def lost(self) -> None:
        """Invalidate all cached state: pushes may have been missed."""
        self._jobs_changed.set()
        self._webhooks.changed()
        self._webhooks.written()
        self._channel_changed("")
        self._keys.clear()
        self._limiter.share_all()

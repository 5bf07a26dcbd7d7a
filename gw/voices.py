"""Cloned voices in PostgreSQL. The SQL is `voices.sql`."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from actors.clock import Clock
from actors.store.database import Database
from actors.store.queries import load
from actors.store.waits import in_time, until_stored
from metrics.logs import EventLog

SQL = load("gw", "voices.sql")

# Rows of one list, newest first.
LIST_MAX = 1000
_ID = re.compile(r"voc_[0-9a-f]{32}", re.ASCII)


def new_voice_id() -> str:
    """Return a new id."""
    return f"voc_{uuid.uuid4().hex}"


def is_voice_id(text: str) -> bool:
    """Whether a text has the form of a cloned voice's id, which no preset has."""
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice of an account; `upstream_id` is its id at `channel_id`."""

    id: str
    name: str
    channel_id: str
    upstream_id: str


class Voices:
    """The voices of every account."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._log = EventLog("gw.voices")

    async def add_voice(
        self, voice: Voice, *, account_id: str, call_id: UUID, created_at: float
    ) -> None:
        """Store a voice made by a call at that instant (Unix seconds).

        Waits for an unreachable database without a timeout, because the upstream has made the
        voice.
        """
        row = (
            *(voice.id, account_id, voice.name, voice.channel_id, voice.upstream_id),
            *(call_id.hex, created_at),
        )
        await until_stored(
            lambda: in_time(self._database.execute(SQL["add"], row)),
            self._clock,
            lambda error: self._log.warning(
                "voice_not_stored", voice_id=voice.id, channel=voice.channel_id, error=str(error)
            ),
        )

    async def find_voice(self, voice_id: str, *, account_id: str) -> Voice | None:
        """Return a voice of the account; None for any other. Raises StoreUnavailable."""
        row = await in_time(self._database.fetch_one(SQL["one"], (voice_id, account_id)))
        return None if row is None else Voice(*row)

    async def of_account(self, account_id: str) -> Sequence[Voice]:
        """Return an account's voices, newest first. Raises StoreUnavailable."""
        rows = await in_time(self._database.fetch_all(SQL["of_account"], (account_id, LIST_MAX)))
        return [Voice(*row) for row in rows]

"""What calls of agents use beside what every handler has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.store.database import Database
from gw.config.config import Config


@dataclass(frozen=True, slots=True)
class AgentServices:
    """Made once by the composition root. `database` is a pool that no other reader of knowledge
    bases waits for, nor makes wait; `config` is the configuration in force."""

    database: Database
    config: Callable[[], Config]

"""What the configuration says of webhooks."""

from __future__ import annotations

from dataclasses import dataclass

from actors.webhooks.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`pauses` after failed attempts, `seconds` of an attempt, `queue`: pending of one webhook."""

    targets: Targets
    pauses: tuple[float, ...]
    seconds: float
    queue: int

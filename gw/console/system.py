"""The system as a page: the configuration in force, the proof of the ledger, and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from actors.store.queries import load
from gw.admin.ledger import LedgerProofs
from gw.config.config import Config
from gw.console.board import ChannelTile
from gw.console.changes import actor_of, in_words
from gw.console.pages import ConsoleHandler
from gw.console.texts import TEXTS

SQL = load("gw.console", "system.sql")
# The thresholds of the alerts (ops/prometheus/alerts.yml).
PROOF_AGE = timedelta(hours=26)
HOLD_SECONDS = 600
POLL_SECONDS = 30
SLOTS_SHARE = 0.9
ATTEMPTS_MIN, FAILURES_SHARE = 20, 0.1


class SystemHandler(ConsoleHandler):
    """The configuration in force, the proof of the ledger, and the conditions of alerts."""

    for_operators = True

    @property
    def proofs(self) -> LedgerProofs:
        """The runner of proofs in this process."""
        proofs: LedgerProofs = self.settings["proofs"]
        return proofs

    async def get(self) -> None:
        config = self.services.current.config
        (
            (proved_at, faults, oldest_hold, late, processes),
        ) = await self.services.database.fetch_all(SQL["system"])
        fleet = await self.services.figures.fleet()
        self.page(
            "system.html",
            settings=list(settings_of(config)),
            source=config.source,
            cautions=config.cautions,
            proved_at=proved_at,
            faults=faults,
            processes=processes,
            is_proving=(await self.proofs.state()).is_running,
            conditions=[
                *channel_conditions(fleet.channels),
                *money_conditions(proved_at, faults, oldest_hold, self.now),
                *process_conditions(fleet.conditions, late),
            ],
        )

    async def post(self) -> None:
        """Prove the ledger; a long proof continues after the response."""
        with in_words():
            await self.proofs.run_proof(actor_of(self.who), with_costs=False, is_everything=False)
        self.redirect("/system", status=303)


def settings_of(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key of the configuration with its value; of a secret, whether it is set."""
    for one in fields(value):
        name, found = f"{prefix}{one.name}", getattr(value, one.name)
        if one.name in ("registry", "cautions", "source"):
            continue
        if not one.repr:
            yield name, TEXTS("system.set" if found else "system.unset")
        elif is_dataclass(found) and type(found).__str__ is object.__str__:
            yield from settings_of(found, f"{name}.")
        elif isinstance(found, Path):
            yield name, str(found)
        elif isinstance(found, frozenset | tuple):
            yield name, ", ".join(sorted(map(str, found))) or TEXTS("system.unset")
        else:
            yield name, TEXTS("system.unset") if found in (None, "") else str(found)
    if isinstance(value, Config):
        yield "channels", str(len(value.registry.channels))
        yield "models", str(len(value.registry.models))


# Conditions of alerts: a sentence and the name of the runbook. Only alerts on present values are
# here; those on rates need Prometheus.
Conditions = Iterator[tuple[str, str]]


def channel_conditions(tiles: list[ChannelTile]) -> Conditions:
    """Yield the conditions of channels; a withdrawn one is in order by itself."""
    rest = [one for one in tiles if one.state in ("open", "half_open")]
    if tiles and len(rest) == len(tiles):
        yield TEXTS("system.all_open"), "all_channels_open"
    elif tiles and all(one.state != "closed" for one in tiles):
        yield TEXTS("system.none_left"), "no_channel_available"
    for one in rest:
        yield TEXTS("system.channel_open", channel=one.id), "channel_open"
    for one in tiles:
        if one.aside:
            text = TEXTS("system.key_refused", channel=one.id, aside=one.aside, keys=one.keys)
            yield text, "channel_key_refused"
        if one.in_use > one.slots * SLOTS_SHARE:
            text = TEXTS("system.channel_full", channel=one.id, used=one.in_use, slots=one.slots)
            yield text, "channel_full"
        failed, attempts = one.hour_failures, one.hour_attempts
        if attempts > ATTEMPTS_MIN and failed > attempts * FAILURES_SHARE:
            text = TEXTS(
                "system.attempts_failing", channel=one.id, failed=failed, attempts=attempts
            )
            yield text, "attempts_failing"


def money_conditions(
    proved_at: datetime | None, faults: int | None, oldest_hold_seconds: float, now: datetime
) -> Conditions:
    """Yield the conditions of the ledger's proof and of holds; a missing proof is none."""
    if faults:
        yield TEXTS("system.ledger_off", faults=faults), "ledger_off"
    if proved_at is not None and now - proved_at > PROOF_AGE:
        yield TEXTS("system.ledger_unproved"), "ledger_unproved"
    if oldest_hold_seconds > HOLD_SECONDS:
        yield TEXTS("system.hold_overdue", seconds=int(oldest_hold_seconds)), "hold_overdue"


def process_conditions(found: Iterable[str], late_seconds: float) -> Conditions:
    """Yield the conditions that processes report, and that of the latest poll."""
    for name in found:
        # A process of another version may report an unknown one.
        if text := TEXTS.get(f"system.{name}", ""):
            yield text, name
    if late_seconds > POLL_SECONDS:
        yield TEXTS("system.tasks_overdue", seconds=int(late_seconds)), "tasks_overdue"

"""Pages for operators: channels with their keys, models with price and cost, the system."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from actors.store.connection import StoreError
from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.ledger import record_proof
from actors.wallet.verify import verify
from channels.families import CHAT_PROTOCOLS, PUBLIC_NAMES
from channels.probe import probe
from channels.registry import ModelSpec
from gw.admin import audit
from gw.api.matrix import compatibility
from gw.config.config import Config
from gw.console.changes import change
from gw.console.figures import ChannelTile
from gw.console.pages import TEXTS, ConsoleHandler
from gw.price_list.filling import Comparison, compare
from gw.price_list.reading import bundled, cost_of
from metrics.logs import EventLog

SQL = load("gw.console", "operations.sql")
PROBE_SECONDS = 15.0
MODELS_PAGE = 100
PROOF_SECONDS = 20.0
# As the alerts have them (ops/prometheus/alerts.yml).
PROOF_AGE = timedelta(hours=26)
HOLD_SECONDS = 900


class ChannelsHandler(ConsoleHandler):
    """Each channel as the processes have it, what it did in the last hour, and a test."""

    for_operators = True

    async def get(self) -> None:
        await self.show_channels(None)

    async def post(self) -> None:
        """Request a channel's list of models, which costs nothing."""
        name = self.field("id")
        current = self.services.current
        channel = current.registry.channels.get(name)
        if channel is None:
            self.refuse(404, "error.not_found")
        found = await probe(
            channel, self.services.wire, current.redactor, timeout_seconds=PROBE_SECONDS
        )
        async with change(self) as (transaction, actor):
            await audit.note(
                transaction, actor, "channel.test", name, details={"status": found.status}
            )
        listed = set(found.models or ())
        bound = [
            (binding.upstream_model or model.id)
            for model in current.registry.models.values()
            for binding in model.bindings
            if binding.channel_id == name
        ]
        await self.show_channels(
            {
                "id": name,
                "is_good": found.is_good,
                "text": TEXTS(
                    "channels.tested",
                    status=found.status or TEXTS("channels.silent"),
                    message=found.message,
                ),
                "missing": sorted(set(bound) - listed) if listed else [],
            }
        )

    async def show_channels(self, tested: Mapping[str, Any] | None) -> None:
        """The page, with what a test brought."""
        tiles = {one.id: one for one in await self.services.figures.fleet()}
        specs = self.services.current.registry.channels
        self.page(
            "channels.html",
            rows=[(spec, tiles.get(name)) for name, spec in specs.items()],
            models={
                name: [
                    model.id
                    for model in self.services.current.registry.models.values()
                    if any(one.channel_id == name for one in model.bindings)
                ]
                for name in specs
            },
            tested=tested,
        )


class ModelsHandler(ConsoleHandler):
    """Models: which protocol reaches them how, what they cost, what a newer list would change."""

    for_operators = True

    async def get(self) -> None:
        current = self.services.current
        registry = current.registry
        start = self.parameters.whole("start", least=0, most=1_000_000) or 0
        models = list(registry.models.values())
        # The list is read once, by a thread; calls wait for none of it.
        await asyncio.to_thread(bundled)
        shown = models[start : start + MODELS_PAGE]
        comparison: Comparison = await asyncio.to_thread(compare, registry, bundled())
        rows = compatibility(registry, current.config.translations)
        cells = {name: row.cells for row in rows for name in row.models}
        self.page(
            "models.html",
            protocols=[PUBLIC_NAMES[name] for name in CHAT_PROTOCOLS],
            models=[(model, cells.get(model.id), self._prices(model)) for model in shown],
            next_start=start + MODELS_PAGE if len(models) > start + MODELS_PAGE else None,
            differing=comparison.differing[:MODELS_PAGE],
            dated=bundled().dated,
        )

    def _prices(self, model: ModelSpec) -> list[tuple[str, str, str]]:
        """Each price, and what the channels' providers ask, where that is known."""
        costs = [
            (binding.channel_id, found)
            for binding in model.bindings
            if (channel := self.services.current.registry.channels.get(binding.channel_id))
            and (found := cost_of(model, channel, binding.upstream_model or model.id))
        ]
        return [
            (
                name,
                f"{price.normalize():f}",
                ", ".join(f"{one} {_member(cost, name)}" for one, cost in costs) or "–",
            )
            for name, price in model.price.members().items()
        ]


def _member(price: Any, name: str) -> str:
    found = price.members().get(name)
    return "–" if found is None else f"{found.normalize():f}"


class SystemHandler(ConsoleHandler):
    """The configuration in force, the proof of the ledger, and what is not as it should be."""

    for_operators = True

    @property
    def proof(self) -> Proof:
        """The one of this process."""
        proof: Proof = self.settings["proof"]
        return proof

    async def get(self) -> None:
        config = self.services.current.config
        ((proved_at, faults, oldest_hold, processes),) = await self.services.database.fetch_all(
            SQL["system"]
        )
        tiles = await self.services.figures.fleet()
        self.page(
            "system.html",
            settings=list(settings_of(config)),
            source=config.source,
            cautions=config.cautions,
            proved_at=proved_at,
            faults=faults,
            processes=processes,
            is_proving=self.proof.is_running,
            failed=self.proof.failed,
            conditions=list(conditions(tiles, proved_at, faults, oldest_hold, self.now)),
        )

    async def post(self) -> None:
        """Prove the ledger, beside the page where it takes long."""
        async with change(self) as (transaction, actor):
            await audit.note(transaction, actor, "ledger.verify", "ledger")
        await self.proof.run(self.services.database)
        self.redirect("/system", status=303)


class Proof:
    """One proof of the ledger at a time in this process; what it found is in the database."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self.failed = ""

    def __repr__(self) -> str:
        return f"<Proof {'running' if self.is_running else 'idle'}>"

    @property
    def is_running(self) -> bool:
        """Whether one is under way."""
        return self._task is not None and not self._task.done()

    async def run(self, database: Database) -> None:
        """Begin one unless one is under way, and wait for it a little."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._prove(database))
        await asyncio.wait([self._task], timeout=PROOF_SECONDS)

    async def _prove(self, database: Database) -> None:
        self.failed = ""
        try:
            report = await verify(database)
            await record_proof(database, faults=len(report.faults))
        except StoreError as error:
            self.failed = TEXTS("system.proof_failed")
            EventLog("gw.console").warning("proof_failed", error=repr(error))


def settings_of(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key of the configuration with its value; of a secret, whether there is one."""
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


def conditions(
    tiles: list[ChannelTile],
    proved_at: datetime | None,
    faults: int | None,
    oldest_hold_seconds: float,
    now: datetime,
) -> Iterator[tuple[str, str]]:
    """What is not as it should be now, as a sentence, and its runbook's name."""
    down = [one for one in tiles if one.state != "closed"]
    if tiles and len(down) == len(tiles):
        yield TEXTS("system.all_open"), "all_channels_open"
    for one in down:
        yield TEXTS("system.channel_open", channel=one.id), "channel_open"
    for one in tiles:
        if one.aside:
            text = TEXTS("system.key_refused", channel=one.id, aside=one.aside, keys=one.keys)
            yield text, "channel_key_refused"
        if one.slots and one.in_use >= one.slots:
            yield TEXTS("system.channel_full", channel=one.id), "channel_full"
    if faults:
        yield TEXTS("system.ledger_off", faults=faults), "ledger_off"
    if proved_at is None or now - proved_at > PROOF_AGE:
        yield TEXTS("system.ledger_unproved"), "ledger_unproved"
    if oldest_hold_seconds > HOLD_SECONDS:
        yield TEXTS("system.hold_overdue", seconds=int(oldest_hold_seconds)), "hold_overdue"

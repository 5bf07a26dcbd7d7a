"""Pages for operators: channels, models with prices and costs, the system; and plain lists."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from actors.store.queries import load
from channels.families import CHAT_PROTOCOLS, PUBLIC_NAMES
from channels.registry import ModelSpec
from gw.admin import agents as handled
from gw.admin import audit, channel_orders, channel_probe, channel_states, tasks
from gw.admin.agents import AgentQuery
from gw.admin.channel_orders import ChannelOrder
from gw.admin.channel_probe import ChannelTest
from gw.admin.ledger import LedgerProofs
from gw.admin.tasks import TaskQuery
from gw.agents import table
from gw.agents.table import UnknownAgent
from gw.api.matrix import compatibility
from gw.config.config import Config
from gw.console.figures import ChannelTile
from gw.console.pages import TEXTS, ConsoleHandler, actor_of, change, in_force, in_words
from gw.media_services import endings_of
from gw.price_list.comparison import Comparison, compare
from gw.price_list.offers import cost_of
from gw.price_list.reading import bundled

SQL = load("gw.console", "operations.sql")
MODELS_PAGE = 100
# The thresholds of the alerts (ops/prometheus/alerts.yml).
PROOF_AGE = timedelta(hours=26)
HOLD_SECONDS = 600
POLL_SECONDS = 30
SLOTS_SHARE = 0.9
ATTEMPTS_MIN, FAILURES_SHARE = 20, 0.1


class ChannelsHandler(ConsoleHandler):
    """Channels: their state in all processes, their last hour, and a test."""

    for_operators = True

    async def get(self) -> None:
        await self.show_channels(None)

    async def post(self) -> None:
        """Test a channel, withdraw it, or reopen it."""
        name, act = self.field("id"), self.field("act")
        current = self.services.current
        registry = current.registry
        if act == "test":
            with in_words():
                spec = channel_orders.find_channel(registry, name)
            found = await channel_probe.probe_models(
                spec, registry, self.services.http, current.redactor
            )
            async with change(self) as (transaction, actor):
                details = {"status": found.status}
                await audit.note(transaction, actor, "channel.test", name, details=details)
            await self.show_channels(found)
            return
        async with change(self) as (transaction, actor):
            if act == "open":
                await channel_orders.reopen(transaction, actor, registry, name)
            elif act in ("drain", "close"):
                order: ChannelOrder = "draining" if act == "drain" else "closed"
                await channel_orders.withdraw(transaction, actor, registry, name, order)
            else:
                self.refuse(400, "error.request")
        await in_force(self)
        self.redirect("/channels", status=303)

    async def show_channels(self, tested: ChannelTest | None) -> None:
        """Show the channels, with the result of a test."""
        tiles = {one.id: one for one in (await self.services.figures.fleet()).channels}
        specs = self.services.current.registry.channels
        orders = await channel_orders.orders_of(self.services.database)
        self.page(
            "channels.html",
            rows=[(spec, tiles.get(name), orders.get(name)) for name, spec in specs.items()],
            state_of=channel_states.state_of,
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
    """Models: protocols, prices, costs, and what the bundled list would change."""

    for_operators = True

    async def get(self) -> None:
        current = self.services.current
        registry = current.registry
        start = self.parameters.whole("start", least=0, most=1_000_000) or 0
        models = list(registry.models.values())
        # The list is parsed once, in a thread, because it would block calls.
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
        """Return each price, and the channels' costs as far as known."""
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
            await self.proofs.run(actor_of(self.who), with_costs=False, is_everything=False)
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


# Plain lists of agents, knowledge bases and tasks, of all accounts or of the owner's.

PAGE = 100


class AgentsHandler(ConsoleHandler):
    """Agents, and whether each can be called."""

    async def get(self) -> None:
        query = AgentQuery(account_id=self.who.account_id, cursor=self.parameters.text("cursor"))
        with in_words():
            page = await handled.page(
                self.services.database, query, self.services.current.config.agents.default_model
            )
        self.page("agents.html", agents=page.data, cursor=page.next_cursor)

    async def post(self) -> None:
        """Enable or disable an agent."""
        agent_id, is_enabled = self.field("id"), self.field("act") == "enable"
        async with change(self) as (transaction, actor):
            try:
                agent = await table.show(transaction, agent_id)
            except UnknownAgent:
                self.refuse(404, "error.not_found")
            if self.who.account_id not in (None, agent.account_id):
                self.refuse(404, "error.not_found")
            await handled.change(transaction, actor, agent_id, {"enabled": is_enabled})
        await in_force(self)
        self.redirect("/agents", status=303)


class BasesHandler(ConsoleHandler):
    """Knowledge bases with their numbers of pages."""

    async def get(self) -> None:
        after = self.parameters.whole("after", least=0, most=2**31 - 1) or 0
        params = {"account": self.who.account_id, "after": after, "limit": PAGE + 1}
        rows = await self.services.database.fetch_all(SQL["bases"], params)
        self.page(
            "bases.html", bases=rows[:PAGE], after=rows[PAGE - 1][0] if len(rows) > PAGE else None
        )


class TasksHandler(ConsoleHandler):
    """Tasks, the newest first."""

    async def get(self) -> None:
        query = TaskQuery(account_id=self.who.account_id, cursor=self.parameters.text("cursor"))
        with in_words():
            page = await tasks.page(self.services.database, query)
        self.page("tasks.html", tasks=page.data, cursor=page.next_cursor)

    async def post(self) -> None:
        """Cancel a task; its account gets the whole hold back, so only operators may."""
        if not self.who.is_operator:
            self.refuse(404, "error.not_found")
        services = self.services
        endings = endings_of(
            services.current,
            database=services.database,
            http=services.http,
            secret=services.secret,
            clock=services.clock,
            metrics=services.metrics,
        )
        with in_words():
            actor = actor_of(self.who)
            await tasks.cancel(services.database, actor, self.field("id"), endings)
        self.redirect("/tasks", status=303)

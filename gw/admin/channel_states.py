"""The states of channels in every process, and the conditions that processes report.

Breaker, slots and suspended keys belong to each process and are collected from all of them
(`actors/changes.py`).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from actors.changes import reports_of_all
from actors.channel import ChannelActor
from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.process import ProcessIdentity
from actors.store.database import Database
from channels.registry import ChannelSpec, Registry
from gw.admin import channel_orders
from gw.nouns.values import Instant
from metrics.prometheus import Metrics

# The timeout of the processes' reports, and the time for which they are cached.
REPORT_SECONDS = 2.0
FRESH_SECONDS = 1.0


class KeyOfRing(Struct, frozen=True):
    """One key of a channel, by its index in the configuration. `aside_until`: null if in use."""

    number: int
    aside_until: Instant | None


class ChannelInProcess(Struct, frozen=True):
    """A channel's state in one process.

    `breaker` is closed, open or half_open; `open_until` is the end of its cooldown. `withdrawn`: it
    grants no lease, by an operator's order.
    """

    process_id: str
    host: str
    pid: int
    breaker: str
    failures: int
    open_until: Instant | None
    slots_in_use: int
    slots_limit: int
    withdrawn: bool
    keys: list[KeyOfRing]


class ChannelView(Struct, frozen=True):
    """A channel's state in every process.

    `state`: open_for_calls, draining (out of service, calls under way), drained, closed. `health`:
    ok, degraded (not in every process) or down, by breakers and keys. `silent_processes` have not
    reported in time.
    """

    id: str
    state: str
    health: str
    ordered_at: Instant | None
    ordered_by: str | None
    kind: str
    protocols: list[str]
    priority: int
    slots_in_use: int
    slots_limit: int
    keys: int
    keys_aside: int
    models: list[str]
    processes: list[ChannelInProcess]
    silent_processes: list[str]


class Reported(Struct, frozen=True):
    """The report of one process."""

    host: str
    pid: int
    channels: dict[str, dict[str, Any]]
    conditions: list[str] = []  # as `Metrics.conditions`


def report_of(
    channels: ChannelDirectory, identity: ProcessIdentity, clock: Clock, metrics: Metrics
) -> str:
    """Return this process's report of its channels and of what its gauges show, in ASCII."""
    now, monotonic = datetime.now(UTC), clock.monotonic()
    reported = Reported(
        host=identity.host,
        pid=identity.pid,
        channels={
            channel_id: _facts(actor, now, monotonic) for channel_id, actor in channels.items()
        },
        conditions=metrics.conditions(clock.now()),
    )
    return json.dumps(msgspec.to_builtins(reported), separators=(",", ":"))


def _facts(actor: ChannelActor, now: datetime, monotonic: float) -> dict[str, Any]:
    cooldown = actor.cooldown_seconds
    return {
        "breaker": actor.health.state,
        "failures": actor.health.failures,
        "open_until": now + timedelta(seconds=cooldown) if cooldown else None,
        "slots_in_use": actor.in_use,
        "slots_limit": actor.spec.max_concurrency,
        "withdrawn": actor.is_withdrawn,
        "keys": [
            {
                "number": key.number,
                "aside_until": now + timedelta(seconds=key.aside_until - monotonic)
                if key.aside_until > monotonic
                else None,
            }
            for key in actor.spec.ring.keys
        ],
    }


class ChannelStates:
    """The channels of all processes, from recent reports."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reports: dict[str, Reported | None] = {}
        self._good_until = 0.0
        self._asking = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<ChannelStates of {len(self._reports)} processes>"

    async def all(self, registry: Registry) -> list[ChannelView]:
        """Return every channel of the configuration, in its order. Raises StoreUnavailable."""
        reports = await self._fresh()
        orders = await channel_orders.orders_of(self._database)
        return [_view(spec, registry, reports, orders) for spec in registry.channels.values()]

    async def show(self, registry: Registry, channel_id: str) -> ChannelView:
        """Return one channel. Raises Refused, StoreUnavailable."""
        spec = channel_orders.find_channel(registry, channel_id)
        return _view(
            spec, registry, await self._fresh(), await channel_orders.orders_of(self._database)
        )

    async def conditions(self) -> tuple[list[str], list[str]]:
        """Return the names of reported conditions, and of processes that have not reported in time.

        Raises StoreUnavailable.
        """
        reports = await self._fresh()
        found = {name for one in reports.values() if one is not None for name in one.conditions}
        return sorted(found), sorted(name for name, one in reports.items() if one is None)

    def forget(self) -> None:
        """Drop cached reports after a change."""
        self._good_until = 0.0

    async def _fresh(self) -> Mapping[str, Reported | None]:
        async with self._asking:
            if time.monotonic() >= self._good_until:
                texts = await reports_of_all(
                    self._database,
                    token=secrets.token_hex(8),
                    timeout_seconds=REPORT_SECONDS,
                )
                self._reports = {
                    process_id: None if text is None else msgspec.json.decode(text, type=Reported)
                    for process_id, text in texts.items()
                }
                self._good_until = time.monotonic() + FRESH_SECONDS
            return self._reports


def _view(
    spec: ChannelSpec,
    registry: Registry,
    reports: Mapping[str, Reported | None],
    orders: channel_orders.OrdersByChannel,
) -> ChannelView:
    processes = [
        msgspec.convert(
            {
                "process_id": process_id,
                "host": one.host,
                "pid": one.pid,
                **one.channels[spec.id],
            },
            ChannelInProcess,
        )
        for process_id, one in sorted(reports.items())
        if one is not None and spec.id in one.channels
    ]
    order, ordered_at, ordered_by = orders.get(spec.id, (None, None, None))
    in_use = sum(one.slots_in_use for one in processes)
    return ChannelView(
        id=spec.id,
        state=state_of(order, in_use),
        health=_health(processes),
        ordered_at=ordered_at,
        ordered_by=ordered_by,
        kind=spec.kind,
        protocols=sorted(spec.protocols),
        priority=spec.priority,
        slots_in_use=in_use,
        slots_limit=sum(one.slots_limit for one in processes),
        keys=len(spec.keys),
        keys_aside=max((_aside(one) for one in processes), default=0),
        models=[
            model.id
            for model in registry.models.values()
            if any(binding.channel_id == spec.id for binding in model.bindings)
        ],
        processes=processes,
        silent_processes=sorted(name for name, one in reports.items() if one is None),
    )


def state_of(order: channel_orders.ChannelOrder | None, in_use: int) -> str:
    """Return a channel's state by its order and its calls under way."""
    if order is None:
        return "open_for_calls"
    return "drained" if order == "draining" and not in_use else order


def _health(processes: Sequence[ChannelInProcess]) -> str:
    good = [one.breaker == "closed" and _aside(one) < len(one.keys) for one in processes]
    if all(good):
        return "ok"
    return "degraded" if any(good) else "down"


def _aside(one: ChannelInProcess) -> int:
    return sum(key.aside_until is not None for key in one.keys)

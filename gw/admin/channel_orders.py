"""An operator's orders for channels: stored for all processes, and applied by each.

A channel is withdrawn until it is reopened, also after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.store.database import Database
from actors.store.errors import StoreError
from actors.store.session import Session, Statements
from channels.registry import ChannelSpec, Registry
from gw.admin import audit
from gw.admin.audit import SQL, Actor
from gw.nouns.refused import Refused
from metrics.logs import EventLog

RETRY_SECONDS = 1.0

ChannelOrder = Literal["draining", "closed"]
ChannelVerb = Literal["drain", "close", "open"]
# What each verb orders; None: nothing any longer.
STATES: Mapping[ChannelVerb, ChannelOrder | None] = MappingProxyType(
    {"drain": "draining", "close": "closed", "open": None}
)

OrdersByChannel = Mapping[str, tuple[ChannelOrder, datetime, str]]


async def orders_of(store: Statements) -> OrdersByChannel:
    """Return the withdrawn channels: state, time and operator."""
    return {
        row[0]: (row[1], row[2], row[3]) for row in await store.fetch_all(SQL["channel_orders"])
    }


def find_channel(registry: Registry, channel_id: str) -> ChannelSpec:
    """Return a channel of the configuration. Raises Refused."""
    spec = registry.channels.get(channel_id)
    if spec is None:
        raise Refused(f"there is no channel {channel_id}", "channel_not_found", http_status=404)
    return spec


async def give_order(
    session: Session, actor: Actor, registry: Registry, channel_id: str, verb: ChannelVerb
) -> None:
    """Withdraw a channel in every process, or reopen it, and reset its breaker and keys.

    Calls under way finish. Raises Refused.
    """
    find_channel(registry, channel_id)
    state = STATES[verb]
    if state is None:
        await session.fetch_all(SQL["open_channel"], {"id": channel_id})
    else:
        by = f"{actor.kind} {actor.name}"
        await session.execute(SQL["order_channel"], {"id": channel_id, "state": state, "by": by})
    await audit.note(session, actor, f"channel.{verb}", channel_id)


class ChannelOrders:
    """Applies the stored orders to the channels of this process."""

    def __init__(self, database: Database, channels: ChannelDirectory, clock: Clock) -> None:
        self._database = database
        self._channels = channels
        self._clock = clock
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._stale: set[str] = {""}  # the changed channels; all of them at first
        self._log = EventLog("gw.admin")

    def __repr__(self) -> str:
        return f"<ChannelOrders {'stale' if self._stale else 'in force'}>"

    def note_change(self, channel_id: str = "") -> None:
        """Mark a channel whose change was pushed, or may have been missed."""
        self._stale.add(channel_id)
        self._changed.set()

    async def load_orders(self) -> None:
        """Return when earlier pushes are applied. Raises StoreUnavailable."""
        async with self._reading:
            stale, self._stale = self._stale, set()
            if not stale:
                return
            try:
                orders = await orders_of(self._database)
            except BaseException:
                self._stale |= stale
                raise
            self._channels.withdraw(orders, reopened=stale - orders.keys())

    async def apply_changes(self) -> None:
        """Apply pushed changes until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.load_orders()
            except StoreError as error:
                self._log.warning("channel_orders_unread", error=str(error))
                await self._clock.sleep(RETRY_SECONDS)
                self._changed.set()

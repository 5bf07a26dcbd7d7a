"""Channels as a page: their state in all processes, their last hour, and a test."""

from __future__ import annotations

from gw.admin import channel_orders, channel_probe, channel_states
from gw.admin.channel_probe import ChannelTest
from gw.console.changes import change, in_force, in_words
from gw.console.pages import ConsoleHandler


class ChannelsHandler(ConsoleHandler):
    """Channels: their state in all processes, their last hour, and a test."""

    async def on_get(self) -> None:
        await self.show_channels(None)

    async def on_post(self) -> None:
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
                await channel_probe.note_test(transaction, actor, found)
            await self.show_channels(found)
            return
        verb = next((one for one in channel_orders.STATES if one == act), None)
        if verb is None:
            self.refuse(400, "error.request")
        async with change(self) as (transaction, actor):
            await channel_orders.give_order(transaction, actor, registry, name, verb)
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

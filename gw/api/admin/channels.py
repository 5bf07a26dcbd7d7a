"""Routes of channels."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from channels.redaction import Redactor
from gw.admin import channel_orders, channel_probe
from gw.admin.channel_orders import ChannelVerb
from gw.admin.channel_probe import ChannelTest
from gw.admin.channel_states import ChannelView
from gw.admin.pagination import Page, PageQuery, page_in_order
from gw.api.admin.table import AdminCall, Route, route

DRAIN_WAIT_SECONDS_MAX = 30
DRAIN_LOOK_SECONDS = 0.5


class Drain(Struct, forbid_unknown_fields=True):
    """How long the response waits for calls under way to end, in seconds."""

    wait_seconds: Annotated[float, Meta(ge=0, le=DRAIN_WAIT_SECONDS_MAX)] = 0


async def list_channels(call: AdminCall) -> Page[ChannelView]:
    """Channels in every process: breaker, slots, which keys are aside until when."""
    found = await call.services.states.all(call.registry)
    return page_in_order(found, call.query, lambda one: one.id)


async def show_channel(call: AdminCall) -> ChannelView:
    """One channel in every process."""
    return await call.services.states.show(call.registry, call.path["channel_id"])


async def drain_channel(call: AdminCall) -> ChannelView:
    """Send a channel no new call, in any process; calls under way end."""
    services = call.services
    view = await _ordered(call, "drain")
    until = services.clock.monotonic() + call.body.wait_seconds
    while view.state == "draining" and services.clock.monotonic() < until:
        await services.clock.sleep(DRAIN_LOOK_SECONDS)
        services.states.forget()
        view = await show_channel(call)
    return view


async def close_channel(call: AdminCall) -> ChannelView:
    """Take a channel out of service, in every process, until it is opened again."""
    return await _ordered(call, "close")


async def open_channel(call: AdminCall) -> ChannelView:
    """Put a channel into service: its breaker closes, its keys are used again."""
    return await _ordered(call, "open")


async def _ordered(call: AdminCall, verb: ChannelVerb) -> ChannelView:
    services, channel_id = call.services, call.path["channel_id"]
    async with services.database.transaction() as session:
        await channel_orders.give_order(session, call.actor, call.registry, channel_id, verb)
    await services.in_force()
    services.states.forget()
    return await show_channel(call)


async def test_channel(call: AdminCall) -> ChannelTest:
    """Ask the upstream for its list of models, which is free of charge."""
    services, registry = call.services, call.registry
    spec = channel_orders.find_channel(registry, call.path["channel_id"])
    redactor = Redactor(registry.channels.values())
    found = await channel_probe.probe_models(spec, registry, services.http, redactor)
    async with services.database.transaction() as session:
        await channel_probe.note_test(session, call.actor, found)
    return found


ROUTES: tuple[Route, ...] = (
    route("GET", "channels", list_channels, query=PageQuery),
    route("GET", "channels/{channel_id}", show_channel),
    route("POST", "channels/{channel_id}/drain", drain_channel, body=Drain),
    route("POST", "channels/{channel_id}/close", close_channel),
    route("POST", "channels/{channel_id}/open", open_channel),
    route("POST", "channels/{channel_id}/test", test_channel),
)

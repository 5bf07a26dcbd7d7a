"""Routes of channels, of served models, and of the ledger's verification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from actors.routing import serving_protocols
from channels.redaction import Redactor
from channels.registry import ModelSpec
from gw.admin import audit, channel_orders, channel_probe
from gw.admin.channel_orders import ChannelOrder
from gw.admin.channel_probe import ChannelTest
from gw.admin.channel_states import ChannelView
from gw.admin.ledger import ProofState
from gw.admin.pagination import Page, PageQuery, page_of
from gw.admin.refusals import Invalid, Refused
from gw.api.admin.table import Call, Route

DRAIN_WAIT_SECONDS_MAX = 30
DRAIN_LOOK_SECONDS = 0.5

T = TypeVar("T")


def page_in_order(rows: Sequence[T], query: PageQuery, name: Callable[[T], str]) -> Page[T]:
    """Return a page of rows in the configuration's order. Raises Invalid."""
    last = query.position(str)
    start = 0
    if last is not None:
        names = [name(row) for row in rows]
        if last not in names:
            raise Invalid("cursor: what it names is no longer there")
        start = names.index(last) + 1
    return page_of(rows[start : start + query.limit + 1], query.limit, name)


# Channels


class Drain(Struct, forbid_unknown_fields=True):
    """How long the response waits for calls under way to end, in seconds."""

    wait_seconds: Annotated[float, Meta(ge=0, le=DRAIN_WAIT_SECONDS_MAX)] = 0


async def list_channels(call: Call) -> Page[ChannelView]:
    found = await call.services.states.all(call.registry)
    return page_in_order(found, call.query, lambda one: one.id)


async def show_channel(call: Call) -> ChannelView:
    return await call.services.states.show(call.registry, call.path["channel_id"])


async def drain_channel(call: Call) -> ChannelView:
    services = call.services
    view = await _ordered(call, "draining")
    until = services.clock.monotonic() + call.body.wait_seconds
    while view.state == "draining" and services.clock.monotonic() < until:
        await services.clock.sleep(DRAIN_LOOK_SECONDS)
        services.states.forget()
        view = await show_channel(call)
    return view


async def close_channel(call: Call) -> ChannelView:
    return await _ordered(call, "closed")


async def open_channel(call: Call) -> ChannelView:
    return await _ordered(call, None)


async def _ordered(call: Call, order: ChannelOrder | None) -> ChannelView:
    services, channel_id = call.services, call.path["channel_id"]
    async with services.database.transaction() as session:
        if order is None:
            await channel_orders.reopen(session, call.actor, call.registry, channel_id)
        else:
            await channel_orders.withdraw(session, call.actor, call.registry, channel_id, order)
    await services.in_force()
    services.states.forget()
    return await show_channel(call)


async def test_channel(call: Call) -> ChannelTest:
    services, registry = call.services, call.registry
    spec = channel_orders.find_channel(registry, call.path["channel_id"])
    redactor = Redactor(registry.channels.values())
    found = await channel_probe.probe_models(spec, registry, services.http, redactor)
    async with services.database.transaction() as session:
        details = {"ok": found.ok, "status": found.status}
        await audit.note(session, call.actor, "channel.test", spec.id, details=details)
    return found


# Models


class BoundChannel(Struct, frozen=True):
    """A channel of a model, and the upstream's name of the model."""

    id: str
    upstream_model: str


class ModelView(Struct, frozen=True):
    """A served model. `prices`: decimal USD, before the multiplier, as configured.

    `protocols`: the public names of those that reach it without translation.
    """

    id: str
    display_name: str
    owned_by: str
    aliases: list[str]
    callable: bool
    endpoint_type: str | None
    context_size: int | None
    max_output_tokens: int | None
    prices: dict[str, Any]
    multiplier: str
    capabilities: list[str]
    protocols: list[str]
    channels: list[BoundChannel]


async def list_models(call: Call) -> Page[ModelView]:
    models = list(call.registry.models.values())
    page = page_in_order(models, call.query, lambda one: one.id)
    return Page([_model(call, one) for one in page.data], page.next_cursor)


async def show_model(call: Call) -> ModelView:
    model = call.registry.resolve(call.path["model_id"])
    if model is None:
        name = call.path["model_id"]
        raise Refused(f"there is no model {name}", "model_not_found", http_status=404)
    return _model(call, model)


def _model(call: Call, model: ModelSpec) -> ModelView:
    return ModelView(
        id=model.id,
        display_name=model.display_name,
        owned_by=model.owned_by,
        aliases=list(model.aliases),
        callable=model.callable,
        endpoint_type=model.endpoint_type,
        context_size=model.context_size,
        max_output_tokens=model.max_output_tokens,
        prices={
            one.name: _plain(value)
            for one in fields(model.price)
            if (value := getattr(model.price, one.name)) is not None
        },
        multiplier=_plain(model.multiplier),
        capabilities=sorted(model.capabilities),
        protocols=serving_protocols(model, call.services.channels),
        channels=[
            BoundChannel(binding.channel_id, binding.upstream_model or model.id)
            for binding in model.bindings
        ],
    )


def _plain(value: Any) -> Any:
    """Return a price for JSON: amounts in plain decimals, at any depth."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return msgspec.to_builtins(value, enc_hook=_unknown)


def _unknown(value: Any) -> Any:
    return dict(value) if hasattr(value, "items") else str(value)


# The ledger


class Proof(Struct, forbid_unknown_fields=True):
    """What to verify besides the balances: each call's cost, everything since the first entry."""

    costs: bool = False
    all: bool = False


async def show_proof(call: Call) -> ProofState:
    return await call.services.proofs.state()


async def run_proof(call: Call) -> ProofState:
    body: Proof = call.body
    return await call.services.proofs.run(call.actor, with_costs=body.costs, is_everything=body.all)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="channels",
        name="list_channels",
        summary="Channels in every process: breaker, slots, which keys are aside until when.",
        query=PageQuery,
        response=Page[ChannelView],
        read=list_channels,
    ),
    Route(
        method="GET",
        path="channels/{channel_id}",
        name="show_channel",
        summary="One channel in every process.",
        response=ChannelView,
        read=show_channel,
    ),
    Route(
        method="POST",
        path="channels/{channel_id}/drain",
        name="drain_channel",
        summary="Send a channel no new call, in any process; calls under way end.",
        body=Drain,
        response=ChannelView,
        read=drain_channel,
    ),
    Route(
        method="POST",
        path="channels/{channel_id}/close",
        name="close_channel",
        summary="Take a channel out of service, in every process, until it is opened again.",
        response=ChannelView,
        read=close_channel,
    ),
    Route(
        method="POST",
        path="channels/{channel_id}/open",
        name="open_channel",
        summary="Put a channel into service: its breaker closes, its keys are used again.",
        response=ChannelView,
        read=open_channel,
    ),
    Route(
        method="POST",
        path="channels/{channel_id}/test",
        name="test_channel",
        summary="Ask the upstream for its list of models, which is free of charge.",
        response=ChannelTest,
        read=test_channel,
    ),
    Route(
        method="GET",
        path="models",
        name="list_models",
        summary="Models as they are served, with prices, in the order of the configuration.",
        query=PageQuery,
        response=Page[ModelView],
        read=list_models,
    ),
    Route(
        method="GET",
        path="models/{model_id}",
        name="show_model",
        summary="One model by its id or an alias.",
        response=ModelView,
        read=show_model,
    ),
    Route(
        method="GET",
        path="ledger/proof",
        name="show_proof",
        summary="What the last proof of the ledger found, and whether one runs.",
        response=ProofState,
        read=show_proof,
    ),
    Route(
        method="POST",
        path="ledger/proof",
        name="run_proof",
        summary="Prove the ledger; the response waits ten seconds for the end at most.",
        body=Proof,
        response=ProofState,
        read=run_proof,
    ),
)

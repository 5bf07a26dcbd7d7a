"""Routes of served models."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from actors.routing import serving_protocols
from channels.registry import ModelSpec
from gw.admin.pagination import Page, PageQuery, page_in_order
from gw.api.admin.table import AdminCall, Route, route
from gw.nouns.refused import Refused


class BoundChannel(Struct, frozen=True):
    """A channel of a model, and the upstream's name of the model.

    `data`: what it promises for data, as demands are written; empty: nothing.
    """

    id: str
    upstream_model: str
    data: str


class ModelView(Struct, frozen=True):
    """A served model. `prices`: decimal USD, before the multiplier, as configured.

    `protocols`: the public names of those that reach it without translation. `chain`: the models
    that serve it, if it is a chain.
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
    chain: list[str]


async def list_models(call: AdminCall) -> Page[ModelView]:
    """Models as they are served, with prices, in the order of the configuration."""
    models = list(call.registry.models.values())
    page = page_in_order(models, call.query, lambda one: one.id)
    return Page([_model(call, one) for one in page.data], page.next_cursor)


async def show_model(call: AdminCall) -> ModelView:
    """One model by its id or an alias."""
    model = call.registry.resolve(call.path["model_id"])
    if model is None:
        name = call.path["model_id"]
        raise Refused(f"there is no model {name}", "model_not_found", http_status=404)
    return _model(call, model)


def _model(call: AdminCall, model: ModelSpec) -> ModelView:
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
            BoundChannel(
                binding.channel_id,
                binding.upstream_model or model.id,
                str(call.registry.channels[binding.channel_id].data_promise),
            )
            for binding in model.bindings
        ],
        chain=[step.id for step in model.chain],
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


ROUTES: tuple[Route, ...] = (
    route("GET", "models", list_models, query=PageQuery),
    route("GET", "models/{model_id}", show_model),
)

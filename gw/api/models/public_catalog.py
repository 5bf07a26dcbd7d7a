"""`GET /api/v1/models/public`: the public view of the registry (reference 4.1).

Pure functions of a Registry. Prices are list prices: the multiplier is shown beside them, not
applied (reference 4.2). A model billed by the piece has `unit_prices`, under their names
in the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from channels.families import CHAT_PROTOCOLS, ENDPOINT_TYPES, PUBLIC_NAMES, UNIT_PRICES
from channels.registry import CAPABILITIES, ModelSpec, Registry
from gw.api.handler import ApiHandler
from gw.api.models.entries import Promises, promises_of
from gw.error_bodies import dumps

_Price = Annotated[
    str | None,
    Meta(description="USD per million tokens, a decimal string; null without such a price."),
]


class CatalogEntry(TypedDict):
    """One model, with list prices."""

    id: Annotated[str, Meta(description="The model's id, as requests name it.")]
    display_name: Annotated[str, Meta(description="The model's name for people.")]
    context_size: Annotated[int | None, Meta(description="The tokens of its context, if known.")]
    input_price: _Price
    output_price: _Price
    cached_input_price: _Price
    capabilities: Annotated[
        dict[str, bool],
        Meta(
            description="What the model can do.",
            extra_json_schema={
                "properties": {name: {"type": "boolean"} for name in CAPABILITIES},
                "required": list(CAPABILITIES),
            },
        ),
    ]
    callable: Annotated[bool, Meta(description="Whether it can be called; else `model_not_found`.")]
    endpoint_type: Annotated[
        str | None,
        Meta(
            description="The endpoint that serves the model; null: the chat endpoints.",
            extra_json_schema={"x-words": list(ENDPOINT_TYPES)},
        ),
    ]
    supported_protocols: Annotated[
        list[str],
        Meta(
            description="The chat protocols that a channel of the model speaks itself.",
            extra_json_schema={"x-words": [PUBLIC_NAMES[name] for name in CHAT_PROTOCOLS]},
        ),
    ]
    unit_prices: NotRequired[
        Annotated[
            dict[str, Any],
            Meta(
                description="USD by the piece, decimal strings; `per_second_by_resolution` is an"
                " object of them.",
                extra_json_schema={"x-words": list(UNIT_PRICES)},
            ),
        ]
    ]
    chain: NotRequired[
        Annotated[
            list[str],
            Meta(
                description="Of a chain: the ids of the models that serve it, the first preferred;"
                " a call is charged at the price of the one that served."
            ),
        ]
    ]
    price_multiplier: NotRequired[
        Annotated[str, Meta(description="By which prices are multiplied, if that is not 1.")]
    ]
    data: NotRequired[Promises]


class PublicModels(TypedDict):
    """The catalog of models."""

    models: Annotated[list[CatalogEntry], Meta(description="Every model, in the gateway's order.")]


class PublicCatalog:
    """The body of the public catalog, rendered once for each registry."""

    def __init__(self) -> None:
        self._registry: Registry | None = None
        self._body = b""

    def body(self, registry: Registry) -> bytes:
        """Return the catalog of `registry` as JSON, a `PublicModels`."""
        if registry is not self._registry:
            self._body = dumps({"models": public_entries(registry)})
            self._registry = registry
        return self._body


def public_entries(registry: Registry) -> list[CatalogEntry]:
    """Return every model as the public catalog shows it (reference 4.2), in the file's order."""
    return [_entry(registry, model) for model in registry.models.values()]


def supported_protocols(registry: Registry, model: ModelSpec) -> list[str]:
    """Return the client protocols for which one of the model's channels is a passthrough.

    A model with an endpoint of its own is not served on the chat endpoints at all (reference 4.2),
    whatever else its channel supports.
    """
    if model.endpoint_type is not None:
        return []
    spoken: set[str] = set()
    for binding in model.bindings:
        channel = registry.channels[binding.channel_id]
        spoken |= channel.spoken(binding.upstream_model or model.id)
    return [
        PUBLIC_NAMES[protocol]
        for protocol in CHAT_PROTOCOLS
        if protocol in spoken and model.is_served_on(protocol)
    ]


def _entry(registry: Registry, model: ModelSpec) -> CatalogEntry:
    entry: CatalogEntry = {
        "id": model.id,
        "display_name": model.display_name,
        "context_size": model.context_size,
        "input_price": _price(model.price.input),
        "output_price": _price(model.price.output),
        "cached_input_price": _price(model.price.cached_input),
        "capabilities": {name: name in model.capabilities for name in CAPABILITIES},
        "callable": model.callable,
        "endpoint_type": model.endpoint_type,
        "supported_protocols": supported_protocols(registry, model),
    }
    units = {name: _unit_price(getattr(model.price, name)) for name in UNIT_PRICES}
    if any(units.values()):
        entry["unit_prices"] = {name: price for name, price in units.items() if price is not None}
    if model.chain:
        entry["chain"] = [step.id for step in model.chain]
    if model.multiplier != 1:
        entry["price_multiplier"] = format(model.multiplier, "f")
    if promises := promises_of(registry, model):
        entry["data"] = promises
    return entry


def _unit_price(price: Decimal | Mapping[str, Decimal] | None) -> Any:
    """Return one price, or the prices by name."""
    if isinstance(price, Mapping):
        return {name: _price(one) for name, one in price.items()}
    return _price(price)


def _price(price: Decimal | None) -> str | None:
    """Return a price as configured, but without an exponent."""
    return None if price is None else format(price, "f")


class PublicCatalogHandler(ApiHandler):
    """The catalog with prices and capabilities, for anyone."""

    def initialize(self, catalog: PublicCatalog) -> None:
        self.catalog = catalog

    async def on_get(self) -> None:
        self.write(self.catalog.body(self.services.current.registry))

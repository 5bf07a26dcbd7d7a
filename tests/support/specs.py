"""Channels and models for tests, with a value for whatever a test does not care about."""

from decimal import Decimal
from typing import Any

from channels.prices import PriceSpec
from channels.registry import Binding, ChannelSpec, HealthSpec, ModelSpec


def make_channel(channel_id: str, **changes: Any) -> ChannelSpec:
    """A channel that speaks chat at `http://<id>.example`, with ten slots."""
    values: dict[str, Any] = {
        "id": channel_id,
        "base_url": f"http://{channel_id}.example",
        "api_key": f"api-key-of-{channel_id}",
        "protocols": frozenset({"chat"}),
        "tools": frozenset(),
        "max_tokens_param": "max_tokens",
        "max_concurrency": 10,
        "priority": 1,
        "health": HealthSpec(),
    }
    return ChannelSpec(**{**values, **changes})


def make_model(*bindings: Binding | str, **changes: Any) -> ModelSpec:
    """The chat model `m` on these channels at 1 USD in, 10 USD out per million tokens."""
    values: dict[str, Any] = {
        "id": "m",
        "bindings": tuple(Binding(b) if isinstance(b, str) else b for b in bindings),
        "display_name": "M",
        "owned_by": "o",
        "created": 0,
        "context_size": None,
        "max_output_tokens": None,
        "price": PriceSpec(input=Decimal(1), output=Decimal(10), cached_input=Decimal("0.1")),
        "multiplier": Decimal(1),
        "capabilities": frozenset(),
        "callable": True,
        "endpoint_type": None,
        "aliases": (),
    }
    return ModelSpec(**{**values, **changes})

"""What cached input saves, at the prices in force."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from channels.registry import ModelSpec


class Savings:
    """The savings by cached input, each token at the price in force."""

    def __init__(self) -> None:
        self.nano_usd = Decimal(0)
        self._seen: dict[str, int] = {}  # tokens by model

    def __repr__(self) -> str:
        return f"<Savings {self.nano_usd}>"

    def add(self, cached_tokens: Mapping[str, int], models: Mapping[str, ModelSpec]) -> None:
        """Add the tokens since the last call."""
        for name, cached in cached_tokens.items():
            more = cached - self._seen.get(name, 0)
            self._seen[name] = cached
            if more and (model := models.get(name)) is not None:
                self.nano_usd += more * saved_nano_usd(model)


def saved_nano_usd(model: ModelSpec) -> Decimal:
    """Return what a cached input token saves, in nano-USD."""
    price = model.price
    if price.input is None or price.cached_input is None:
        return Decimal(0)
    return (price.input - price.cached_input) * model.multiplier * 1000

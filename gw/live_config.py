"""The configuration in force, and what is computed from it once: replaced whole on a reload.

A call reads what it needs at its start and keeps it; nothing here changes under a running call.
"""

from __future__ import annotations

from actors.wallet.pricing import TokenPrice
from channels.redact import Redactor
from channels.registry import ModelSpec, Registry
from gw.config.config import Config


class LiveConfig:
    """The registry in force with its redactor and compiled prices."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._redactor = Redactor(config.registry.channels.values())
        self._prices: dict[str, TokenPrice] = {}

    def __repr__(self) -> str:
        registry = self.config.registry
        return f"<LiveConfig {len(registry.channels)} channels {len(registry.models)} models>"

    def swap(self, config: Config) -> None:
        """Put another configuration in force: its channels and models."""
        self.config = config
        self._redactor = Redactor(config.registry.channels.values())
        self._prices = {}

    def registry(self) -> Registry:
        """Channels and models in force."""
        return self.config.registry

    def redactor(self) -> Redactor:
        """Redacts what the channels in force must not show."""
        return self._redactor

    def redact(self, text: str) -> str:
        """A message without what the channels in force must not show."""
        return self._redactor.text(text)

    def price_of(self, model: ModelSpec) -> TokenPrice:
        """The model's price, compiled once. A model of an older registry is priced afresh."""
        if self.config.registry.models.get(model.id) is not model:
            return TokenPrice.of(model.price, model.multiplier)
        price = self._prices.get(model.id)
        if price is None:
            price = self._prices[model.id] = TokenPrice.of(model.price, model.multiplier)
        return price

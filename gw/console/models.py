"""Models as a page: protocols, prices, costs, and what the bundled list would change."""

from __future__ import annotations

import asyncio
from typing import Any

from channels.families import CHAT_PROTOCOLS, PUBLIC_NAMES
from channels.registry import ModelSpec
from gw.api.matrix import compatibility
from gw.console.pages import ConsoleHandler
from gw.price_list.comparison import Comparison, compare
from gw.price_list.offers import cost_of
from gw.price_list.reading import bundled

MODELS_PAGE = 100


class ConsoleModelsHandler(ConsoleHandler):
    """Models: protocols, prices, costs, and what the bundled list would change."""

    async def on_get(self) -> None:
        current = self.services.current
        registry = current.registry
        start = self.parameters.whole("start", least=0, most=1_000_000) or 0
        models = list(registry.models.values())
        # The list is parsed once, in a thread, because it would block calls.
        await asyncio.to_thread(bundled)
        shown = models[start : start + MODELS_PAGE]
        comparison: Comparison = await asyncio.to_thread(compare, registry, bundled())
        rows = compatibility(registry, current.config.translations)
        cells = {name: row.cells for row in rows for name in row.models}
        promises = {model.id: registry.promises(model) for model in shown}
        self.page(
            "models.html",
            protocols=[PUBLIC_NAMES[name] for name in CHAT_PROTOCOLS],
            models=[(model, cells.get(model.id), self._prices(model)) for model in shown],
            promises=promises if any(map(any, promises.values())) else {},
            next_start=start + MODELS_PAGE if len(models) > start + MODELS_PAGE else None,
            differing=comparison.differing[:MODELS_PAGE],
            dated=bundled().dated,
        )

    def _prices(self, model: ModelSpec) -> list[tuple[str, str, str]]:
        """Return each price, and the channels' costs as far as known."""
        costs = [
            (binding.channel_id, found)
            for binding in model.bindings
            if (channel := self.services.current.registry.channels.get(binding.channel_id))
            and (found := cost_of(model, channel, binding.upstream_model or model.id))
        ]
        return [
            (
                name,
                f"{price.normalize():f}",
                ", ".join(f"{one} {_member(cost, name)}" for one, cost in costs) or "–",
            )
            for name, price in model.price.members().items()
        ]


def _member(price: Any, name: str) -> str:
    found = price.members().get(name)
    return "–" if found is None else f"{found.normalize():f}"

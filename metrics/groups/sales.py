"""What was sold to clients, and what it cost at upstreams."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from metrics.families import NUMBERS_MAX, Families
from metrics.values import FamilySeries, Number, Shown

CACHED_INPUT: Final = "gw_cached_input_tokens_total"


class Sold:
    """What calls of one model on one channel were settled for: tokens, nano-USD, and calls."""

    def __init__(self) -> None:
        self.input_tokens = self.cached_tokens = self.cached_input = self.output_tokens = 0
        self.nano_usd = self.upstream_nano_usd = self.below_cost = self.unknown_cost = 0

    def counted(self, channel: str, model: str) -> list[tuple[str, tuple[str, ...], int]]:
        """Return what it adds to each counter, by label values."""
        by_channel = (channel, model)
        return [
            ("gw_tokens_total", (model, "fresh_input"), self.input_tokens - self.cached_input),
            ("gw_tokens_total", (model, "cached_input"), self.cached_tokens),
            ("gw_tokens_total", (model, "output"), self.output_tokens),
            ("gw_input_tokens_total", by_channel, self.input_tokens),
            (CACHED_INPUT, by_channel, self.cached_input),
            ("gw_cost_nano_usd_total", (model,), self.nano_usd),
            ("gw_upstream_cost_nano_usd_total", by_channel, self.upstream_nano_usd),
            ("gw_calls_below_cost_total", by_channel, self.below_cost),
            ("gw_calls_of_unknown_cost_total", by_channel, self.unknown_cost),
        ]


class SaleMetrics:
    """Tokens and amounts of settled calls: one object for each channel and model, so that a call
    looks up that one instead of each of its counters."""

    def __init__(self, make: Families) -> None:
        self.sold = FamilySeries(Sold, width=2, limit=NUMBERS_MAX)
        for name in dict.fromkeys(name for name, _, _ in Sold().counted("", "")):
            make.sums(name, partial(self.shown, name))

    def settled(
        self,
        *,
        channel: str,
        model: str,
        nano_usd: int,
        upstream_nano_usd: int | None,
        is_sold: bool,
        input_tokens: int = 0,
        cached_tokens: int = 0,
        output_tokens: int = 0,
    ) -> None:
        """Count a settled call; `upstream_nano_usd` None: the operator's cost is unknown.

        `is_sold`: its client has received what it pays for. `input_tokens` includes cached ones.
        """
        sold = self.sold[channel, model]
        sold.input_tokens += input_tokens
        sold.output_tokens += output_tokens
        sold.nano_usd += nano_usd
        if cached_tokens:
            # An upstream may state more cached tokens than input; a counter cannot decrease.
            sold.cached_tokens += cached_tokens
            sold.cached_input += min(cached_tokens, input_tokens)
        if upstream_nano_usd is None:
            sold.unknown_cost += 1
        elif upstream_nano_usd:
            sold.upstream_nano_usd += upstream_nano_usd
            sold.below_cost += is_sold and upstream_nano_usd > nano_usd

    def shown(self, name: str) -> Shown[Number]:
        """Return the series of one of the counters."""
        sums = Counter[tuple[str, ...]]()
        for (channel, model), sold in self.sold.shown():
            for counter, values, count in sold.counted(channel, model):
                # Beside all input there is shown how much of it was cached, even if none was.
                if counter == name and (count or (name == CACHED_INPUT and sold.input_tokens)):
                    sums[values] += count
        return [(values, Number(value)) for values, value in sums.items()]

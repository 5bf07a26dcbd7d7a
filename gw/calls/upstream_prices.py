"""What calls cost the operator: the price of each channel in the current configuration."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from actors.jobs.store import OpenJob
from actors.routing import Candidate
from actors.wallet.piece_prices import MediaPrice
from actors.wallet.pricing import TokenPrice
from actors.wallet.sheets import token_price, unpriced_in
from channels.dialects.token_counts import Usage
from channels.prices import PriceSpec
from channels.registry import ModelSpec
from gw.config.live import LiveConfig
from gw.price_list.offers import cost_of
from gw.price_list.reading import bundled


class UpstreamPrice(Struct, frozen=True):
    """The price of an upstream for a model: `model` with that price and no multiplier.

    `tokens` is the compiled price of a model that is billed by tokens.
    """

    model: ModelSpec
    tokens: TokenPrice

    def cost_nano_usd(self, usage: Usage) -> int | None:
        """Return the cost of a usage; None where a part of it has no price."""
        sheet = self.tokens.sheet
        if usage.parts is not None and (
            unpriced_in(usage) if sheet is None else sheet.unpriced(usage)
        ):
            return None
        return self.tokens.cost_nano_usd(usage)


class UpstreamPrices:
    """The operator's cost of each channel in the current configuration, compiled once.

    It is the `cost` of the channel's entry in the model, else the price of the bundled list for the
    provider. A `cost` with neither input nor output replaces members of that price.
    """

    def __init__(self, current: LiveConfig) -> None:
        bundled()  # loaded before the first call
        self._current = current

    def of(self, model: ModelSpec, candidate: Candidate) -> UpstreamPrice | None:
        """Return the price of a model at a channel; None where it is unknown."""
        found: UpstreamPrice | Literal[False] | None = model.derived.get(candidate)
        if found is None:
            found = model.derived[candidate] = self._price(model, candidate) or False
        return found or None

    def _price(self, model: ModelSpec, candidate: Candidate) -> UpstreamPrice | None:
        channel = self._current.registry.channels.get(candidate.channel_id)
        cost = None if channel is None else cost_of(model, channel, candidate.upstream_model)
        bound = (candidate.channel_id, candidate.upstream_model)
        for one in model.bindings:
            if one.cost is not None and (one.channel_id, one.upstream_model or model.id) == bound:
                cost = _stated_cost(one.cost, cost, model)
        if cost is None:
            return None
        priced = dataclasses.replace(model, price=cost, multiplier=Decimal(1))
        return UpstreamPrice(priced, token_price(cost, priced.multiplier))

    def of_job(self, open_job: OpenJob, quantity: int) -> int | None:
        """Return the cost of a job in nano-USD that produced `quantity`, which may be 0."""
        job = open_job.job
        model = self._current.registry.resolve(job.model)
        if not quantity:
            return 0
        if model is None or job.channel_id is None or job.upstream_model is None:
            return None
        price = self.of(model, Candidate(job.channel_id, job.upstream_model, job.protocol))
        if price is None:
            return None
        resolution = (open_job.detail.get("request") or {}).get("resolution")
        return MediaPrice.of(price.model, resolution=resolution).cost_nano_usd(quantity)


def _stated_cost(stated: PriceSpec, listed: PriceSpec | None, model: ModelSpec) -> PriceSpec | None:
    """Return the cost of a channel's entry, completed by the listed price where it is partial."""
    if stated.input is not None or stated.output is not None or model.endpoint_type is not None:
        return stated
    return None if listed is None else stated.over(listed)

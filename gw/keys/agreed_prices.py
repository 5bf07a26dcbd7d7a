"""Prices agreed with an account, as they come with its keys: which holds for a call at its time.

An agreed price makes of a model another one with that price, and everything that prices a call
goes by that. How they are set is `gw/admin/prices.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from channels.prices import EXACT, PriceSpec
from channels.registry import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedPrice:
    """One agreement: a factor on all prices of the models, or members in place of the models' own.

    `models` are patterns of ids; the instants are Unix seconds, the second None for no end.
    """

    id: str
    models: tuple[str, ...]
    factor: Decimal | None
    prices: PriceSpec | None
    valid_from: float
    valid_until: float | None

    def holds_at(self, now: float) -> bool:
        """Whether it applies to a call at this moment."""
        return self.valid_from <= now and (self.valid_until is None or now < self.valid_until)

    def of(self, model: ModelSpec) -> ModelSpec:
        """The model at this price."""
        if self.factor is not None:
            return replace(model, multiplier=EXACT.multiply(model.multiplier, self.factor))
        assert self.prices is not None
        own = self.prices
        bindings = tuple(
            bound if bound.price is None else replace(bound, price=own.over(bound.price))
            for bound in model.bindings
        )
        return replace(model, price=own.over(model.price), bindings=bindings)


@dataclass(frozen=True, slots=True)
class AgreedPrices:
    """All agreements with an account that hold or will, the one that counts last."""

    agreed: tuple[AgreedPrice, ...]
    # Those of a model by its id, the one that counts first; patterns are compared once.
    _of_model: dict[str, tuple[AgreedPrice, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # The models at these prices: by the agreement and the id, beside the one each was made of.
    _made: dict[tuple[str, str], tuple[ModelSpec, ModelSpec]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> AgreedPrices:
        """What the database has of them."""
        return cls(tuple(_agreed(row) for row in rows))

    def model_at(self, model: ModelSpec, now: float) -> tuple[ModelSpec, str | None]:
        """The model at the price that holds now, and the agreement's id; None: it is everyone's.

        Of several agreements the one that is valid since last counts.
        """
        found = self._of_model.get(model.id)
        if found is None:
            found = self._of_model[model.id] = tuple(
                one
                for one in reversed(self.agreed)
                if any(fnmatchcase(model.id, pattern) for pattern in one.models)
            )
        for one in found:
            if one.holds_at(now):
                key = (one.id, model.id)
                known = self._made.get(key)
                if known is None or known[0] is not model:
                    known = self._made[key] = (model, one.of(model))
                return known[1], one.id
        return model, None

    def chain_at(self, chain: ModelSpec, now: float) -> tuple[ModelSpec, dict[str, str]]:
        """A chain whose models have the prices that hold now, and their agreements by model."""
        found = {step.id: self.model_at(step, now) for step in chain.chain}
        agreed = {name: one for name, (_, one) in found.items() if one is not None}
        return replace(chain, chain=tuple(model for model, _ in found.values())), agreed


def _agreed(row: Mapping[str, Any]) -> AgreedPrice:
    factor, prices, until = row["factor"], row["prices"], row["valid_until"]
    return AgreedPrice(
        id=row["id"],
        models=tuple(row["models"]),
        factor=None if factor is None else Decimal(factor),
        prices=None if prices is None else PriceSpec.of_stated(prices),
        valid_from=float(row["valid_from"]),
        valid_until=None if until is None else float(until),
    )

"""The principal of a valid key, the prices agreed with its account, and the refusals of keys.

Facts only; `cache.py` finds them, `store.py` reads the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, Literal

from channels.prices import EXACT, PriceSpec
from channels.registry import ModelSpec

# Prices agreed with an account, as they come with its keys: which holds for a call at its time.
#
# An agreed price makes of a model another one with that price, and everything that prices a call
# goes by that. How they are set is `gw/admin/prices.py`.


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
    def read(cls, rows: Sequence[Mapping[str, Any]]) -> AgreedPrices:
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


AGENT = "agent"  # whose keys work on one endpoint alone
KEY_KINDS = ("console", "employee", "compute", AGENT)
# The user of keys that name none: the account's own.
OWNER = "owner"

RefusalReason = Literal[
    "malformed", "unknown", "revoked", "disabled", "expired", "account_inactive"
]

# The messages to the client, each apart from the others (spec: Authentication 5; contract §7: a
# disabled key has its own message).
MESSAGES: Mapping[RefusalReason, str] = {
    "malformed": (
        "The API key is missing or malformed: a key is `sk-platform-` followed by 64 lower-case"
        " hexadecimal characters."
    ),
    "unknown": "The API key is invalid: there is no such key.",
    "revoked": "The API key has been revoked.",
    "disabled": "The API key is disabled.",
    "expired": "The API key has expired.",
    "account_inactive": "The account of this API key is not active.",
}


class KeyRefused(Exception):
    """A key that opens nothing; `reason` is its code, the text is for the client."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__(MESSAGES[reason])
        self.reason = reason


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Agent:
    """What a key of kind agent speaks for, with its account's settings for models.

    All keys of an agent share one, unless it was changed between their readings.
    """

    id: str
    user: str  # of the account, whose bases it may read
    system_prompt: bytes = field(repr=False)  # a JSON string
    model: str | None
    temperature: float | None
    web_search: bool
    image_generation: bool
    kbs: tuple[str, ...]  # as the user names them
    enabled: bool
    default_model: str | None  # the account's
    allowed_models: frozenset[str] | None  # the account's; canonical ids; empty: none


@dataclass(frozen=True, slots=True)
class Principal:
    """A good key with its account, as a call needs them; None means no restriction."""

    key_id: str
    account_id: str
    key_name: str
    key_prefix: str
    kind: str  # one of KEY_KINDS
    agent_id: str | None
    allowed_models: frozenset[str] | None  # canonical ids; empty: every model is refused
    expires_at: float | None  # Unix seconds
    account_logs: bool
    spend_cap_nano_usd: int | None
    rpm_limit: int | None
    concurrency_limit: int | None
    user: str = OWNER  # of the account; fixed for the life of the key
    # None also for a key of kind agent that has none: it can call nothing.
    agent: Agent | None = field(default=None, repr=False)
    prices: AgreedPrices | None = field(default=None, repr=False)  # None: everyone's

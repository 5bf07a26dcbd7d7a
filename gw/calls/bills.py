"""The bill of one call: its hold, its delivered content, its cost.

Chat is billed by tokens (`token_bill.py`), media by the piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from actors.wallet.bounds import NONE_DOUBTED
from actors.wallet.live_calls import Delivered
from actors.wallet.piece_prices import MediaPrice
from channels.dialects.token_counts import Usage
from gw.calls.upstream_prices import UpstreamPrice
from metrics.spans import Attributes

NO_TOKENS = Usage(input_tokens=0, output_tokens=0)


class Charged(Struct, frozen=True, kw_only=True):
    """The cost of a call, with the members of its row and its receipt (`observer.py`).

    `units` are those of the row's `unit_type`; 0 where the call is billed by tokens. `upstream` are
    the facts that the upstream reported; `is_redacted`: in a response whose secrets were removed
    before it was read, and without empty ones.
    """

    cost_nano_usd: int
    usage: Usage = NO_TOKENS
    units: int = 0
    is_stream: bool = False
    is_redacted: bool = False
    result_urls: Sequence[str] = ()
    result_expires_at: float | None = None  # Unix seconds
    detail: Mapping[str, Any] = msgspec.field(default_factory=dict)
    upstream: dict[str, Any] = msgspec.field(default_factory=dict)
    unpriced: Sequence[str] = ()  # reported usage that has no price
    doubted: Mapping[str, int] = NONE_DOUBTED  # stated counts that are not possible


class Bill(Protocol):
    """Reads the response of one call and prices it."""

    @property
    def hold_nano_usd(self) -> int:
        """The cost of a complete response to the request."""

    @property
    def terms(self) -> dict[str, Any]:
        """The price, and the estimate for the hold, as in the receipt; a dict of its own."""

    @property
    def is_complete(self) -> bool:
        """Whether the upstream's response is complete, so that its connection can be reused."""

    def delivered(self) -> Delivered | None:
        """Return the content sent so far, priced; None while there is none."""

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        """Return the charge. `first_byte_seconds` is None when nothing was sent to the client."""

    def upstream_cost(self, price: UpstreamPrice | None, charged: Charged) -> int | None:
        """Return the operator's cost of the response in nano-USD, also where it is not charged.

        None where it is unknown.
        """

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        """Return the attributes of the response in the span of a sampled call."""


class UnitBill:
    """The bill of a call whose quantity is known beforehand: one, or a number of characters.

    Charges everything or nothing. `quantity` is in the unit of the row.
    """

    is_complete = True  # a response is read whole, or its connection is closed

    def __init__(self, price: MediaPrice, quantity: int) -> None:
        self._price = price
        self._quantity = quantity

    @property
    def hold_nano_usd(self) -> int:
        """The cost of the quantity."""
        return self._price.cost_nano_usd(self._quantity)

    @property
    def terms(self) -> dict[str, Any]:
        return {"price": self._price.stated}

    def delivered(self) -> Delivered | None:
        """None: the response is sent at once, when it is settled."""
        return None

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        if first_byte_seconds is None:
            return Charged(cost_nano_usd=0)
        return Charged(
            cost_nano_usd=self.hold_nano_usd,
            units=self._quantity,
            detail={"units": self._price.units(self._quantity)},
        )

    def upstream_cost(self, price: UpstreamPrice | None, charged: Charged) -> int | None:
        if not charged.units:
            return 0
        if price is None:
            return None
        return MediaPrice.of(price.model).cost_nano_usd(charged.units)

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        return {"gw.units": charged.units}

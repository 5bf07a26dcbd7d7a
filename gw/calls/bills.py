"""The bill of one call: its hold, its delivered content, its cost.

Chat is billed by tokens (`token_bill.py`), what an upstream measures by what it states
(`measured.py`), images by the piece (`gw/api/images/bill.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from actors.wallet.bounds import NONE_DOUBTED
from actors.wallet.live_calls import Delivered
from actors.wallet.piece_prices import MediaPrice
from channels.dialects.token_counts import Usage
from channels.registry import ModelSpec
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


NOTHING = Charged(cost_nano_usd=0)


class Bill:
    """The bill of one call: reads its response and prices it.

    What stands here holds of a response that is sent whole, once it is settled; a stream is billed
    while it is sent (`token_bill.py`).
    """

    __slots__ = ()

    @property
    def served(self) -> str:
        """Of a chain, the model that is charged for; empty while none has responded."""
        return ""

    @property
    def hold_nano_usd(self) -> int:
        """The cost of a complete response to the request."""
        raise NotImplementedError

    @property
    def budget_hold_nano_usd(self) -> int:
        """The same of the whole request, whatever the balance is held for."""
        return self.hold_nano_usd

    @property
    def stated_price(self) -> Mapping[str, Any]:
        """The price, as in the receipt."""
        raise NotImplementedError

    @property
    def terms(self) -> dict[str, Any]:
        """The price, and the estimate for the hold, as in the receipt; a dict of its own."""
        return {"price": self.stated_price}

    @property
    def is_complete(self) -> bool:
        """Whether the upstream's response is complete, so that its connection can be reused."""
        return True

    def delivered(self) -> Delivered | None:
        """Return the content sent so far, priced; None while there is none."""
        return None

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        """Return the charge. `first_byte_seconds` is None when nothing was sent to the client."""
        if first_byte_seconds is None or not self.is_complete:
            return NOTHING
        return self.charged_whole()

    def charged_whole(self) -> Charged:
        """Return the charge of a whole response."""
        raise NotImplementedError

    def upstream_cost(self, price: UpstreamPrice | None, charged: Charged) -> int | None:
        """Return the operator's cost of the response in nano-USD, also where it is not charged.

        None where it is unknown.
        """
        if not self.is_made(charged):
            return 0
        return None if price is None else self.cost_at(price.model, charged)

    def is_made(self, charged: Charged) -> bool:
        """Whether the upstream has made anything that it may charge."""
        raise NotImplementedError

    def cost_at(self, model: ModelSpec, charged: Charged) -> int | None:
        """Return the cost of what was made at the price of this model."""
        raise NotImplementedError

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        """Return the attributes of the response in the span of a sampled call."""
        return {"gw.units": charged.units}


class ReadBill(Bill):
    """The bill of a call whose upstream's response states what is charged."""

    def read(self, body: bytes, *, now: float) -> str | None:
        """Count the whole response of an upstream, received at `now` (Unix seconds).

        Returns its message if it reports a failure nevertheless. Raises UpstreamMalformed.
        """
        raise NotImplementedError


class UnitBill(Bill):
    """The bill of a call whose quantity is known beforehand: one, or a number of characters.

    `quantity` is in the unit of the row.
    """

    def __init__(self, price: MediaPrice, quantity: int) -> None:
        self._price = price
        self._quantity = quantity

    @property
    def hold_nano_usd(self) -> int:
        return self._price.cost_nano_usd(self._quantity)

    @property
    def stated_price(self) -> Mapping[str, Any]:
        return self._price.stated

    def charged_whole(self) -> Charged:
        return Charged(
            cost_nano_usd=self.hold_nano_usd,
            units=self._quantity,
            detail={"units": self._price.units(self._quantity)},
        )

    def is_made(self, charged: Charged) -> bool:
        return charged.units > 0

    def cost_at(self, model: ModelSpec, charged: Charged) -> int:
        return MediaPrice.of(model).cost_nano_usd(charged.units)


class JobBill(Bill):
    """The bill of a submission, which charges nothing until the job ends.

    The job is settled at its end (`actors/jobs/ending.py`), at the price fixed here; the hold is
    its highest cost.
    """

    def __init__(self, price: Mapping[str, str], hold_nano_usd: int) -> None:
        self._price = price
        self._hold_nano_usd = hold_nano_usd

    @property
    def hold_nano_usd(self) -> int:
        return self._hold_nano_usd

    @property
    def stated_price(self) -> Mapping[str, Any]:
        return self._price

    def charged_whole(self) -> Charged:
        return NOTHING

    def is_made(self, charged: Charged) -> bool:
        return False  # by the submission

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        return {}

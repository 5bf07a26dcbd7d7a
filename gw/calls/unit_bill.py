"""The bill of a call of which is known beforehand how much it makes: so many characters, or one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.live import Delivered
from actors.wallet.unit_pricing import MediaPrice
from gw.calls.bill import Charged
from metrics.spans import Attributes


class UnitBill:
    """Charges everything or nothing. `quantity` is in the unit of the row; `task_id` the row's."""

    is_complete = True  # what an upstream answers is read whole, or its connection is closed

    def __init__(self, price: MediaPrice, quantity: int, *, task_id: str | None = None) -> None:
        self._price = price
        self._quantity = quantity
        self._task_id = task_id

    def __repr__(self) -> str:
        return f"<UnitBill {self._quantity} {dict(self._price.stated)}>"

    @property
    def hold_nano_usd(self) -> int:
        """The cost, if there is one."""
        return self._price.cost_nano_usd(self._quantity)

    @property
    def terms(self) -> Mapping[str, Any]:
        return {"price": self._price.stated}

    def delivered(self) -> Delivered | None:
        """None: everything goes out at once, when it is settled."""
        return None

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        if first_byte_seconds is None:
            return Charged(cost_nano_usd=0, task_id=self._task_id)
        return Charged(
            cost_nano_usd=self.hold_nano_usd,
            units=self._quantity,
            task_id=self._task_id,
            detail={"units": self._price.units(self._quantity)},
        )

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        return {"gw.units": charged.units}

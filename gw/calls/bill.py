"""What one call has delivered and what that costs: the side of `Settlement` that knows the unit.

A chat call is billed by tokens (`tokens.py`), a media call by the piece: its room has its bill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from actors.live import Delivered
from channels.usage import Usage
from metrics.spans import Attributes

NO_TOKENS = Usage(input_tokens=0, output_tokens=0)


class Charged(Struct, frozen=True, kw_only=True):
    """The cost of a call, and what its row and its receipt say of it (`receipt.py`).

    `units` are those of the row's `unit_type`; 0 where the call is billed by tokens. `task_id` is
    the id of what the call made, if that has one. `upstream` is what the upstream said of its
    response, unredacted.
    """

    cost_nano_usd: int
    usage: Usage = NO_TOKENS
    units: int = 0
    is_stream: bool = False  # its tokens went out one by one
    result_urls: Sequence[str] = ()
    result_expires_at: float | None = None  # Unix seconds
    task_id: str | None = None
    detail: Mapping[str, Any] = msgspec.field(default_factory=dict)
    upstream: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Bill(Protocol):
    """Reads the response of one call and prices it."""

    @property
    def terms(self) -> Mapping[str, Any]:
        """The price, and what was assumed for the hold, as the receipt will say it."""

    @property
    def is_complete(self) -> bool:
        """Has the upstream said everything? Then its connection may serve another call."""

    def delivered(self) -> Delivered | None:
        """What has gone out so far, priced; None while that is nothing."""

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        """The cost. `first_byte_seconds` is None when nothing went out to the client."""

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        """What the span of a sampled call says of its response."""

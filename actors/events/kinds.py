"""Which types of events there are (reference 11.6)."""

from __future__ import annotations

from typing import Literal, get_args

# Those that a transaction writes, in the reference's order.
EventType = Literal[
    "balance.low",
    "budget.warning",
    "budget.exhausted",
    "account.created",
    "account.updated",
    "account.enabled",
    "account.disabled",
    "key.created",
    "key.updated",
    "key.revoked",
    "task.ended",
    "call.settled",
]
TYPES: tuple[EventType, ...] = get_args(EventType)
CALL_SETTLED: EventType = "call.settled"

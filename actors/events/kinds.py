"""Which types of events there are (reference 11)."""

from __future__ import annotations

CALL_SETTLED = "call.settled"
# Those that a transaction writes, in the reference's order.
TYPES = (
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
    CALL_SETTLED,
)

"""The money of a key, in the reference."""

from __future__ import annotations

from gw.api import balance
from gw.api.reference.operation import Operation, answers, in_query

TAG = "Balance"

KEY = (
    Operation(
        name="get_key_balance",
        tag=TAG,
        summary="Read what the key can spend and has spent.",
        description="It does not count as a use of the key.",
        responses=answers(balance.KeyBalance, "The balance."),
    ),
)
SUBSCRIPTION = (
    Operation(
        name="get_subscription",
        tag=TAG,
        summary="Read the balance as the limits of a subscription.",
        responses=answers(balance.Subscription, "The limits."),
    ),
)
USAGE = (
    Operation(
        name="get_billing_usage",
        tag=TAG,
        summary="Read what the key has spent, in cents.",
        parameters=(
            in_query("start_date", "Ignored: the sum is of all time."),
            in_query("end_date", "Ignored: the sum is of all time."),
        ),
        responses=answers(balance.BillingUsage, "The sum."),
    ),
)

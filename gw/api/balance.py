"""`GET /v1/key/balance` and the two billing endpoints (reference 5.10).

Free, exempt from the account's limits, served at any balance, and no use of the key. The figures
are always current: the handlers wait for pending writes of every process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from actors.wallet.ledger import Spending
from actors.wallet.money import format_usd
from gw.api.handler import ApiHandler
from gw.api.services import until_settled
from gw.error_bodies import dumps
from gw.instants import format_instant, of_seconds

CENTS_PER_USD = 100


@dataclass(frozen=True, slots=True)
class Funds:
    """One key's money, spendable and spent, in nano-USD.

    Pure arithmetic on the ledger's figures (reference 5.10). All figures that the
    endpoints show are computed from the same integers, so that they add up to the last digit.
    """

    remaining_nano_usd: int
    used_nano_usd: int

    @classmethod
    def of(cls, spending: Spending, cap_nano_usd: int | None) -> Funds:
        """Return the smaller of the account's available balance and the rest of the key's cap.

        Open holds count against both: money held for a call under way cannot be spent.
        """
        remaining = spending.balance_nano_usd - spending.held_nano_usd
        if cap_nano_usd is not None:
            cap_remainder = cap_nano_usd - spending.key_spent_nano_usd - spending.key_held_nano_usd
            remaining = min(remaining, cap_remainder)
        return cls(max(0, remaining), spending.key_spent_nano_usd)

    @property
    def total_nano_usd(self) -> int:
        return self.remaining_nano_usd + self.used_nano_usd


class KeyBalance(TypedDict):
    """The money of a key; amounts are decimal strings in USD."""

    object: Annotated[Literal["key.balance"], Meta(description="Always `key.balance`.")]
    remaining_usd: Annotated[
        str,
        Meta(
            description="What the key can still spend, at least 0: the account's balance without"
            " open holds, or the rest of the key's cap if that is less."
        ),
    ]
    used_usd: Annotated[str, Meta(description="What the key has spent.")]
    total_usd: Annotated[str, Meta(description="The sum of both.")]
    expires_at: Annotated[
        str | None,
        Meta(
            description="When the key expires; null: never.",
            extra_json_schema={"format": "date-time"},
        ),
    ]


class Subscription(TypedDict):
    """The balance as the limits of a subscription; amounts are numbers in USD."""

    object: Annotated[
        Literal["billing_subscription"], Meta(description="Always `billing_subscription`.")
    ]
    has_payment_method: Annotated[bool, Meta(description="Always true.")]
    soft_limit_usd: Annotated[float, Meta(description="As `hard_limit_usd`.")]
    hard_limit_usd: Annotated[float, Meta(description="What is left and what is spent together.")]
    system_hard_limit_usd: Annotated[float, Meta(description="As `hard_limit_usd`.")]
    access_until: Annotated[
        int, Meta(description="When the key expires, in Unix seconds; 0: never.")
    ]


class BillingUsage(TypedDict):
    """What the key has spent since it was made."""

    object: Annotated[Literal["list"], Meta(description="Always `list`.")]
    total_usage: Annotated[float, Meta(description="The sum, in cents of a USD.")]
    daily_costs: Annotated[list[Any], Meta(description="Always empty.", max_length=0)]


def key_balance(funds: Funds, expires_at: float | None) -> KeyBalance:
    """Return the body of `GET /v1/key/balance`. `expires_at` is in Unix seconds."""
    return {
        "object": "key.balance",
        "remaining_usd": format_usd(funds.remaining_nano_usd),
        "used_usd": format_usd(funds.used_nano_usd),
        "total_usd": format_usd(funds.total_nano_usd),
        "expires_at": None if expires_at is None else format_instant(of_seconds(expires_at)),
    }


def subscription(funds: Funds, expires_at: float | None) -> bytes:
    """Return the body of the billing subscription, a `Subscription`.

    Amounts are JSON numbers, written digit by digit: rounding to a float would break the equation
    `hard_limit_usd - total_usage / 100 == remaining_usd`.
    """
    total = format_usd(funds.total_nano_usd)
    access_until = 0 if expires_at is None else int(expires_at)
    return (
        '{"object":"billing_subscription","has_payment_method":true,'
        f'"soft_limit_usd":{total},"hard_limit_usd":{total},"system_hard_limit_usd":{total},'
        f'"access_until":{access_until}}}'
    ).encode()


def usage(funds: Funds) -> bytes:
    """Return the body of the billing usage, a `BillingUsage`."""
    cents = format_usd(funds.used_nano_usd * CENTS_PER_USD)
    return f'{{"object":"list","total_usage":{cents},"daily_costs":[]}}'.encode()


async def funds_of(handler: ApiHandler) -> Funds:
    """Read the money of the request's key. Raises StoreUnavailable."""
    principal, services = handler.principal, handler.services
    await until_settled(services, principal.account_id)
    spending = await services.wallets.spending(principal.key_id, principal.account_id)
    return Funds.of(spending, principal.spend_cap_nano_usd)


class BalanceHandler(ApiHandler):
    """The spendable balance of this key."""

    async def on_get(self) -> None:
        self.write(dumps(key_balance(await funds_of(self), self.principal.expires_at)))


class SubscriptionHandler(ApiHandler):
    """The balance as the limits of a subscription."""

    async def on_get(self) -> None:
        self.write(subscription(await funds_of(self), self.principal.expires_at))


class UsageHandler(ApiHandler):
    """The money spent by this key; the dates in the query are accepted and ignored."""

    async def on_get(self) -> None:
        self.write(usage(await funds_of(self)))

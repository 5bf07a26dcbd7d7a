"""`GET /v1/key/balance` and the two billing endpoints (spec: Balance).

Free, exempt from the account's limits, answered at any balance, and no use of the key. They always
tell the latest: what any process has still to write is waited for first.
"""

from __future__ import annotations

from gw.api.balance.funds import Funds, key_balance, subscription, usage
from gw.api.base import ApiHandler
from gw.api.services import until_settled
from gw.errors.render import dumps


class _FundsHandler(ApiHandler):
    touches_key = False

    async def funds(self) -> Funds:
        """Read the key's money. Raises StoreUnavailable."""
        principal = self.principal
        await until_settled(self.services, principal.account_id)
        spending = await self.services.wallets.spending(principal.key_id, principal.account_id)
        return Funds.of(spending, principal.spend_cap_nano_usd)


class BalanceHandler(_FundsHandler):
    """What this key can still spend."""

    route = "key_balance"

    async def on_get(self) -> None:
        self.write(dumps(key_balance(await self.funds(), self.principal.expires_at)))


class SubscriptionHandler(_FundsHandler):
    """The balance as the limits of a subscription."""

    route = "billing_subscription"

    async def on_get(self) -> None:
        self.write(subscription(await self.funds(), self.principal.expires_at))


class UsageHandler(_FundsHandler):
    """What this key has spent; the dates in the query are accepted and ignored."""

    route = "billing_usage"

    async def on_get(self) -> None:
        self.write(usage(await self.funds()))

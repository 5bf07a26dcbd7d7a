"""Waiting until what any process knows of an account is in the database.

For whoever reads from there what a client has seen happen: balance, billing, the call log.
"""

from __future__ import annotations

import asyncio

from actors.store.errors import StoreUnavailable
from gw.api.services import Services

# With the database up a settlement is a matter of milliseconds. This long means that it is away.
SETTLE_SECONDS = 5.0


async def until_settled(services: Services, account_id: str) -> None:
    """Return when every settlement and row of the account is written. Raises StoreUnavailable."""
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            await services.settled(account_id)
    except TimeoutError:
        raise StoreUnavailable("settlements are waiting for the database") from None

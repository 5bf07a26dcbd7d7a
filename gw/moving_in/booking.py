"""Creates the accounts of a plan, each with its balance and keys in one transaction, once.

An account's id is derived from its source; one that exists was moved in before, and is unchanged
with its money. The balance is an entry of the ledger like any top-up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from actors.store.database import Database
from actors.store.session import Session
from gw import accounts as accounts
from gw.keys.hashing import KeyHasher
from gw.keys.issue import issue_key
from gw.keys.key import KeyWish
from gw.keys.sealing import KeySealer
from gw.keys.secret import Secret
from gw.moving_in.plan import PlannedAccount


@dataclass(frozen=True, slots=True)
class BookedKey:
    """A key that was created; `text` is shown once."""

    name: str
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Booked:
    """An account of the plan. Not `is_new`: it existed, and nothing was done."""

    account: PlannedAccount
    is_new: bool
    keys: tuple[BookedKey, ...] = ()


# The last step in the transaction of an account.
Also = Callable[[Session, Booked], Awaitable[None]]


async def book_accounts(
    database: Database, planned: Sequence[PlannedAccount], *, secret: Secret, also: Also
) -> list[Booked]:
    """Create the accounts that do not exist. Raises StoreError; those created until then remain."""
    hasher, sealer = KeyHasher(secret), KeySealer(secret)
    return [await _book(database, account, hasher, sealer, also) for account in planned]


async def _book(
    database: Database, account: PlannedAccount, hasher: KeyHasher, sealer: KeySealer, also: Also
) -> Booked:
    async with database.transaction() as session:
        is_new = await accounts.create_once(
            session,
            account.id,
            account.name,
            credit_nano_usd=account.balance_nano_usd,
            is_enabled=account.is_enabled,
        )
        if not is_new:
            return Booked(account, is_new=False)
        keys = []
        for key in account.keys:
            wish = KeyWish(
                account_id=account.id,
                name=key.name,
                allowed_models=None if key.models is None else list(key.models),
                expires_at=key.expires_at,
                spend_cap_nano_usd=key.spend_cap_nano_usd,
            )
            issued = await issue_key(session, wish, hasher=hasher, sealer=sealer)
            keys.append(BookedKey(key.name, issued.id, issued.text))
        booked = Booked(account, is_new=True, keys=tuple(keys))
        await also(session, booked)
    return booked

"""The table of accounts as functions: create, list, show, limit, enable. The SQL is `accounts.sql`.

Amounts are only read here; `actors/wallet/ledger.py` moves them. The database notifies running
gateways of changed limits and disabled accounts.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from actors.store.database import Database
from actors.store.queries import load, settings
from actors.store.session import Session, Statements
from actors.wallet.ledger import UnknownAccount, top_up

SQL = load("gw", "accounts.sql")

# Granted at sign-up (spec: Account wallet).
TRIAL_NANO_USD = 300_000_000


@dataclass(frozen=True, slots=True)
class Account:
    """One account; the columns of `show` and `list` in their order."""

    id: str
    name: str
    enabled: bool
    balance_nano_usd: int
    held_nano_usd: int
    rpm_limit: int | None
    concurrency_limit: int | None
    created_at: datetime
    default_model: str | None  # of agents without one
    allowed_models: list[str] | None  # of agents; None: every model

    @property
    def available_nano_usd(self) -> int:
        """The balance without open holds (contract §3)."""
        return self.balance_nano_usd - self.held_nano_usd


class LimitChanges(TypedDict, total=False):
    """Limits to set; an absent name leaves a limit alone, None removes it."""

    rpm_limit: int | None
    concurrency_limit: int | None


class ModelChanges(TypedDict, total=False):
    """The models of agents; an absent name leaves it alone, None is no default, or every model."""

    default_model: str | None
    allowed_models: list[str] | None


async def create(
    database: Database,
    name: str,
    *,
    rpm_limit: int | None = None,
    concurrency_limit: int | None = None,
    credit_nano_usd: int = 0,
    with_trial: bool = False,
) -> Account:
    """Create an account with its first credits in one transaction. Raises StoreError."""
    async with database.transaction() as session:
        return await insert(
            session,
            name,
            rpm_limit=rpm_limit,
            concurrency_limit=concurrency_limit,
            credit_nano_usd=credit_nano_usd,
            with_trial=with_trial,
        )


async def insert(
    session: Session,
    name: str,
    *,
    rpm_limit: int | None = None,
    concurrency_limit: int | None = None,
    credit_nano_usd: int = 0,
    with_trial: bool = False,
) -> Account:
    """Like `create`, in the transaction of the caller. Raises StoreError."""
    account_id = new_account_id()
    row = {
        "id": account_id,
        "name": name,
        "rpm_limit": rpm_limit,
        "concurrency_limit": concurrency_limit,
    }
    await session.execute(SQL["insert"], row)
    if with_trial:
        await top_up(session, account_id, TRIAL_NANO_USD, kind="trial")
    if credit_nano_usd:
        await top_up(session, account_id, credit_nano_usd, kind="topup")
    return await show(session, account_id)


async def create_once(
    session: Session, account_id: str, name: str, *, credit_nano_usd: int, is_enabled: bool
) -> bool:
    """Create an account of this id with its credit; return False if it exists.

    Concurrent calls wait for each other, and one of them creates it. Raises StoreError.
    """
    row = {"id": account_id, "name": name, "enabled": is_enabled}
    if not await session.execute(SQL["insert_once"], row):
        return False
    if credit_nano_usd:
        await top_up(session, account_id, credit_nano_usd, kind="topup")
    return True


async def show(database: Statements, account_id: str) -> Account:
    """Return one account. Raises UnknownAccount."""
    row = await database.fetch_one(SQL["show"], (account_id,))
    if row is None:
        raise UnknownAccount(account_id)
    return Account(*row)


async def list_all(database: Database) -> list[Account]:
    """Return every account, oldest first."""
    return [Account(*row) for row in await database.fetch_all(SQL["list"])]


async def set_limits(database: Statements, account_id: str, changes: LimitChanges) -> None:
    """Set the limits that `changes` names. Raises UnknownAccount."""
    params = settings(changes, LimitChanges.__annotations__)
    if not await database.execute(SQL["limit"], {"id": account_id, **params}):
        raise UnknownAccount(account_id)


async def set_models(database: Statements, account_id: str, changes: ModelChanges) -> None:
    """Set the models named by `changes`, in canonical ids. Raises UnknownAccount."""
    params = settings(changes, ModelChanges.__annotations__)
    if not await database.execute(SQL["set_models"], {"id": account_id, **params}):
        raise UnknownAccount(account_id)


async def set_enabled(database: Statements, account_id: str, *, enabled: bool) -> None:
    """Enable or disable all keys of the account. Raises UnknownAccount."""
    if not await database.execute(SQL["enable"], {"id": account_id, "enabled": enabled}):
        raise UnknownAccount(account_id)


def new_account_id() -> str:
    """Return a new id of an account."""
    return f"acct_{secrets.token_hex(10)}"

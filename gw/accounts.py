"""Accounts: their members, each declared once, and their table as functions.

Amounts are only read here; `actors/wallet/ledger.py` moves them. The database notifies running
gateways of changed limits and disabled accounts.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from actors.store.database import Database
from actors.store.queries import load
from actors.store.session import Session, Statements
from actors.wallet.ledger import UnknownAccount, top_up
from gw.nouns import kinds
from gw.nouns.member import Member, Setting
from gw.nouns.noun import Changes, Noun

# Granted at sign-up (reference 5.1).
TRIAL_NANO_USD = 300_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedAndLimited:
    """What a new account and a stored one have in common."""

    name: Annotated[str, Member(kinds.LABEL, "as lists show it", is_positional=True)]
    rpm_limit: Annotated[
        int | None,
        Setting(kinds.COUNT, "requests per minute", option="rpm", none="any", verb="limits"),
    ] = None
    concurrency_limit: Annotated[
        int | None,
        Setting(kinds.COUNT, "requests at a time", option="concurrency", none="any", verb="limits"),
    ] = None
    data_demand: Annotated[
        str | None,
        Setting(
            kinds.DEMAND,
            "what channels must promise for its data",
            option="data",
            form="data",
            none="nothing",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccount(_NamedAndLimited):
    """A new account, with its first credit."""

    credit_nano_usd: Annotated[
        int,
        Member(
            kinds.USD,
            "credit to begin with",
            name="credit_usd",
            form="credit",
            before="rpm_limit",
        ),
    ] = 0
    with_trial: Annotated[
        bool,
        Member(kinds.FLAG, "grant the trial credit of 0.30 USD", name="trial", before="rpm_limit"),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Account(_NamedAndLimited):
    """An account as shown; amounts are decimal strings.

    `default_model` and `allowed_models` apply to its agents; null is no default, and every model.
    """

    id: Annotated[str, Member(kinds.ID, before="name")]
    enabled: Annotated[
        bool, Setting(kinds.FLAG, has_option=False, has_field=False, before="rpm_limit")
    ]
    balance_nano_usd: Annotated[int, Member(kinds.USD, name="balance_usd", before="rpm_limit")]
    held_nano_usd: Annotated[int, Member(kinds.USD, name="held_usd", before="rpm_limit")]
    default_model: Annotated[
        str | None,
        Setting(kinds.MODEL_ID, "of agents that have none", none="the platform's", has_field=False),
    ]
    allowed_models: Annotated[
        list[str] | None,
        Setting(kinds.MODELS, "may be repeated", option="allow", has_field=False),
    ]
    balance_alerts_nano_usd: Annotated[
        list[int] | None,
        Setting(
            kinds.AMOUNTS,
            "at most 5: an event when the balance falls to one",
            name="balance_alerts_usd",
            option="below-usd",
            form="alerts",
            none="no events",
            verb="alerts",
        ),
    ]
    created_at: Annotated[datetime, Member(kinds.INSTANT)]

    @property
    def available_nano_usd(
        self,
    ) -> Annotated[int, Member(kinds.USD, name="available_usd", before="rpm_limit")]:
        """The balance without open holds (reference 5.3)."""
        return self.balance_nano_usd - self.held_nano_usd


ACCOUNT: Noun[NewAccount, Account] = Noun(
    "Account",
    NewAccount,
    Account,
    alias="a",
    settings_doc="New settings of an account; absent members stay, null removes a limit.",
)
SQL = load("gw", "accounts.sql", ACCOUNT.sql)


async def create(database: Database, name: str, **settings: Any) -> Account:
    """Create an account with its first credits in one transaction. Raises StoreError."""
    async with database.transaction() as session:
        return await insert(session, NewAccount(name=name, **settings))


async def insert(session: Session, new: NewAccount) -> Account:
    """Create an account with its first credits; `session` is a transaction. Raises StoreError."""
    account_id = new_account_id()
    await session.execute(SQL["insert"], {"id": account_id, **ACCOUNT.row_of(new)})
    if new.with_trial:
        await top_up(session, account_id, TRIAL_NANO_USD, kind="trial")
    if new.credit_nano_usd:
        await top_up(session, account_id, new.credit_nano_usd, kind="topup")
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
    return ACCOUNT.of_row(row)


async def list_all(database: Database) -> list[Account]:
    """Return every account, oldest first."""
    return [ACCOUNT.of_row(row) for row in await database.fetch_all(SQL["list"])]


async def change(database: Statements, account_id: str, changes: Changes) -> None:
    """Set the fields named by `changes`; a disabled account's keys are. Raises UnknownAccount."""
    if not await database.execute(
        SQL["change"], {"id": account_id, **ACCOUNT.settings_of(changes)}
    ):
        raise UnknownAccount(account_id)


def new_account_id() -> str:
    """Return a new id of an account."""
    return f"acct_{secrets.token_hex(10)}"

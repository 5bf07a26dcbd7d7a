"""An operator's functions of accounts: create, credit, limit, disable; each change is audited.

The table is `gw/accounts.py`, the credit `actors/wallet/ledger.py`.
"""

from __future__ import annotations

from typing import Any

from actors.store.session import Session, Statements
from actors.wallet.ledger import correct as book_correction
from actors.wallet.ledger import top_up as credit
from actors.wallet.money import NANO_PER_USD, format_usd
from gw import accounts
from gw.accounts import ACCOUNT, Account, NewAccount
from gw.admin import audit
from gw.admin.audit import Actor
from gw.admin.pagination import Page, PageQuery, newest
from gw.nouns.noun import Changes
from gw.nouns.refused import Invalid, Refused
from gw.nouns.values import read_reason

# (reference 5.1)
TOP_UP_MIN_NANO_USD = NANO_PER_USD


async def page(database: Statements, query: PageQuery) -> Page[Account]:
    """Return a page of accounts, newest first. Raises Invalid."""
    return await newest(database, accounts.SQL["newest_first"], ACCOUNT, query)


async def create(session: Session, actor: Actor, new: NewAccount) -> Account:
    """Create an account with its first credits. Raises StoreError."""
    made = await accounts.insert(session, new)
    details = ACCOUNT.noted_new(new)
    await audit.note(session, actor, "account.create", made.id, account_id=made.id, details=details)
    return made


def check_top_up(amount_nano_usd: int) -> None:
    """Raise Refused for an invalid amount of a top-up (reference 5.1)."""
    if amount_nano_usd < TOP_UP_MIN_NANO_USD:
        least = format_usd(TOP_UP_MIN_NANO_USD)
        given = format_usd(amount_nano_usd)
        raise Refused(
            f"{given} USD is too little: a top-up is at least {least} USD",
            "amount_too_small",
            http_status=422,
        )


async def top_up(
    session: Session,
    actor: Actor,
    account_id: str,
    amount_nano_usd: int,
    *,
    reference: str | None = None,
) -> Account:
    """Credit an account; `reference` identifies the payment in the audit trail.

    Raises UnknownAccount, Refused.
    """
    check_top_up(amount_nano_usd)
    await credit(session, account_id, amount_nano_usd, kind="topup")
    details: dict[str, Any] = {"amount_usd": format_usd(amount_nano_usd)}
    if reference is not None:
        details["reference"] = reference
    await audit.note(
        session, actor, "account.topup", account_id, account_id=account_id, details=details
    )
    return await accounts.show(session, account_id)


def check_correction(amount_nano_usd: int) -> None:
    """Raise Invalid for a correction of nothing."""
    if not amount_nano_usd:
        raise Invalid("a correction is of more or less than 0 USD")


async def correct(
    session: Session, actor: Actor, account_id: str, amount_nano_usd: int, *, reason: str
) -> Account:
    """Book a correction, negative too, as an entry of its own; the audit trail has the reason.

    Raises UnknownAccount, BalanceOutOfRange, Invalid.
    """
    check_correction(amount_nano_usd)
    details = {"amount_usd": format_usd(amount_nano_usd), "reason": read_reason(reason)}
    await book_correction(session, account_id, amount_nano_usd)
    await audit.note(
        session, actor, "account.correct", account_id, account_id=account_id, details=details
    )
    return await accounts.show(session, account_id)


async def change(session: Session, actor: Actor, account_id: str, changes: Changes) -> Account:
    """Set limits, models, and whether its keys are enabled. Raises UnknownAccount, Invalid."""
    if not changes:
        raise Invalid("nothing to set: name at least one setting")
    await accounts.change(session, account_id, changes)
    details = ACCOUNT.noted(changes)
    await audit.note(
        session, actor, "account.set", account_id, account_id=account_id, details=details
    )
    return await accounts.show(session, account_id)

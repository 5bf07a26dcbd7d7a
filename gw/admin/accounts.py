"""An operator's functions of accounts: create, credit, limit, disable; each change is audited.

The table is `gw/accounts.py`, the credit `actors/wallet/ledger.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from actors.store.session import Session, Statements
from actors.wallet.ledger import correct as book_correction
from actors.wallet.ledger import top_up as credit
from actors.wallet.money import NANO_PER_USD, format_usd
from gw import accounts
from gw.accounts import ACCOUNT, Account, NewAccount
from gw.admin import audit
from gw.admin.audit import Actor
from gw.admin.pagination import Page, PageQuery, newest
from gw.nouns import kinds, values
from gw.nouns.given import Given
from gw.nouns.member import Member
from gw.nouns.noun import Changes
from gw.nouns.refused import Invalid, Refused

# (reference 5.1)
TOP_UP_MIN_NANO_USD = NANO_PER_USD


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUp:
    """Credit for an account: 1 USD or more."""

    amount_nano_usd: Annotated[
        int,
        Member(
            # That a negative amount is too little, too, `check_top_up` says.
            replace(kinds.USD, metavar="USD", parse=values.usd),
            "1 or more",
            name="amount_usd",
            option="amount",
            is_positional=True,
        ),
    ]
    reference: Annotated[
        str | None,
        Member(kinds.LABEL, "of the payment", has_option=False, has_field=False),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """An amount to book, negative too, that no top-up and no call explains."""

    amount_nano_usd: Annotated[
        int,
        Member(
            replace(kinds.SIGNED_USD, metavar="USD"),
            "such as 2.50 or -2.50",
            name="amount_usd",
            option="amount",
            is_positional=True,
        ),
    ]
    reason: Annotated[str, Member(kinds.REASON, "for the audit trail")]


TOP_UP: Given[TopUp] = Given("TopUp", TopUp)
CORRECTION: Given[Correction] = Given("Correction", Correction)


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


async def top_up(session: Session, actor: Actor, account_id: str, new: TopUp) -> Account:
    """Credit an account. Raises UnknownAccount, Refused."""
    check_top_up(new.amount_nano_usd)
    await credit(session, account_id, new.amount_nano_usd, kind="topup")
    noted = TOP_UP.noted_new(new)
    details = {name: value for name, value in noted.items() if value is not None}
    await audit.note(
        session, actor, "account.topup", account_id, account_id=account_id, details=details
    )
    return await accounts.show(session, account_id)


def check_correction(amount_nano_usd: int) -> None:
    """Raise Invalid for a correction of nothing."""
    if not amount_nano_usd:
        raise Invalid("a correction is of more or less than 0 USD")


async def correct(session: Session, actor: Actor, account_id: str, new: Correction) -> Account:
    """Book a correction, negative too, as an entry of its own; the audit trail has the reason.

    Raises UnknownAccount, BalanceOutOfRange, Invalid.
    """
    check_correction(new.amount_nano_usd)
    details = CORRECTION.noted_new(new)
    await book_correction(session, account_id, new.amount_nano_usd)
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

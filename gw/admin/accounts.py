"""An operator's functions of accounts: create, credit, limit, disable; each change is audited.

The table is `gw/accounts.py`, the credit `actors/wallet/ledger.py`.
"""

from __future__ import annotations

from typing import Any, TypedDict

from msgspec import Struct

from actors.store.session import Session, Statements
from actors.wallet.ledger import correct as book_correction
from actors.wallet.ledger import top_up as credit
from actors.wallet.money import NANO_PER_USD, format_usd
from gw import accounts
from gw.accounts import Account, LimitChanges, ModelChanges
from gw.admin import audit, pagination
from gw.admin.audit import SQL, Actor
from gw.admin.refusals import Invalid, Refused
from gw.admin.values import Instant, read_reason
from gw.cursors import Position

# (spec: Account wallet)
TOP_UP_MIN_NANO_USD = NANO_PER_USD


class AccountView(Struct, frozen=True):
    """An account as shown; amounts are decimal strings.

    `default_model` and `allowed_models` apply to its agents; null is no default, and every model.
    """

    id: str
    name: str
    enabled: bool
    balance_usd: str
    held_usd: str
    available_usd: str
    rpm_limit: int | None
    concurrency_limit: int | None
    default_model: str | None
    allowed_models: list[str] | None
    created_at: Instant


class AccountChanges(TypedDict, total=False):
    """The settings to change; an absent name leaves one alone. Models are canonical ids."""

    enabled: bool
    rpm_limit: int | None
    concurrency_limit: int | None
    default_model: str | None
    allowed_models: list[str] | None


def view(account: Account) -> AccountView:
    """Return an account as shown."""
    return AccountView(
        id=account.id,
        name=account.name,
        enabled=account.enabled,
        balance_usd=format_usd(account.balance_nano_usd),
        held_usd=format_usd(account.held_nano_usd),
        available_usd=format_usd(account.available_nano_usd),
        rpm_limit=account.rpm_limit,
        concurrency_limit=account.concurrency_limit,
        default_model=account.default_model,
        allowed_models=account.allowed_models,
        created_at=account.created_at,
    )


async def page(store: Statements, query: pagination.PageQuery) -> pagination.Page[AccountView]:
    """Return a page of accounts, newest first. Raises Invalid."""
    rows = await store.fetch_all(SQL["page_of_accounts"], pagination.after_position(query))
    found = [view(Account(*row)) for row in rows]
    return pagination.page_of(found, query.limit, lambda one: Position(one.created_at, one.id))


async def show(store: Statements, account_id: str) -> AccountView:
    """Return one account. Raises UnknownAccount."""
    return view(await accounts.show(store, account_id))


async def create(
    session: Session,
    actor: Actor,
    name: str,
    *,
    rpm_limit: int | None = None,
    concurrency_limit: int | None = None,
    credit_nano_usd: int = 0,
    with_trial: bool = False,
) -> AccountView:
    """Create an account with its first credits. Raises StoreError."""
    made = await accounts.insert(
        session,
        name,
        rpm_limit=rpm_limit,
        concurrency_limit=concurrency_limit,
        credit_nano_usd=credit_nano_usd,
        with_trial=with_trial,
    )
    details = {
        "name": name,
        "credit_usd": format_usd(credit_nano_usd),
        "trial": with_trial,
        "rpm_limit": rpm_limit,
        "concurrency_limit": concurrency_limit,
    }
    await audit.note(session, actor, "account.create", made.id, account_id=made.id, details=details)
    return view(made)


def check_top_up(amount_nano_usd: int) -> None:
    """Raise Refused for an invalid amount of a top-up (spec: Account wallet)."""
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
) -> AccountView:
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
    return await show(session, account_id)


def check_correction(amount_nano_usd: int) -> None:
    """Raise Invalid for a correction of nothing."""
    if not amount_nano_usd:
        raise Invalid("a correction is of more or less than 0 USD")


async def correct(
    session: Session, actor: Actor, account_id: str, amount_nano_usd: int, *, reason: str
) -> AccountView:
    """Book a correction, negative too, as an entry of its own; the audit trail has the reason.

    Raises UnknownAccount, BalanceOutOfRange, Invalid.
    """
    check_correction(amount_nano_usd)
    details = {"amount_usd": format_usd(amount_nano_usd), "reason": read_reason(reason)}
    await book_correction(session, account_id, amount_nano_usd)
    await audit.note(
        session, actor, "account.correct", account_id, account_id=account_id, details=details
    )
    return await show(session, account_id)


async def change(
    session: Session, actor: Actor, account_id: str, changes: AccountChanges
) -> AccountView:
    """Set limits, models, and whether its keys are enabled. Raises UnknownAccount, Invalid."""
    if not changes:
        raise Invalid("nothing to set: name at least one setting")
    limits, models = LimitChanges(), ModelChanges()
    if "rpm_limit" in changes:
        limits["rpm_limit"] = changes["rpm_limit"]
    if "concurrency_limit" in changes:
        limits["concurrency_limit"] = changes["concurrency_limit"]
    if "default_model" in changes:
        models["default_model"] = changes["default_model"]
    if "allowed_models" in changes:
        models["allowed_models"] = changes["allowed_models"]
    if limits:
        await accounts.set_limits(session, account_id, limits)
    if models:
        await accounts.set_models(session, account_id, models)
    if "enabled" in changes:
        await accounts.set_enabled(session, account_id, enabled=changes["enabled"])
    await audit.note(
        session, actor, "account.set", account_id, account_id=account_id, details=changes
    )
    return await show(session, account_id)

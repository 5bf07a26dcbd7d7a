"""Routes of accounts, their top-ups and corrections."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from actors.store.session import Session
from actors.wallet.money import format_usd
from gw.admin import accounts, values
from gw.admin.accounts import AccountChanges, AccountView
from gw.admin.pagination import Page, PageQuery
from gw.api.admin import member_types
from gw.api.admin.table import AdminCall, Route


class NewAccount(Struct, forbid_unknown_fields=True):
    """A new account, with its first credit."""

    name: member_types.Name
    credit_usd: member_types.Usd = "0"
    trial: bool = False
    rpm_limit: member_types.Limit | None = None
    concurrency_limit: member_types.Limit | None = None


class AccountSettings(Struct, forbid_unknown_fields=True):
    """New settings of an account; absent members stay, null removes a limit."""

    enabled: bool | UnsetType = UNSET
    rpm_limit: member_types.Limit | UnsetType | None = UNSET
    concurrency_limit: member_types.Limit | UnsetType | None = UNSET
    default_model: member_types.Model | UnsetType | None = UNSET
    allowed_models: member_types.Models | UnsetType | None = UNSET


class TopUp(Struct, forbid_unknown_fields=True):
    """Credit for an account: 1 USD or more."""

    amount_usd: member_types.Usd
    reference: member_types.Name | None = None


class Correction(Struct, forbid_unknown_fields=True):
    """An amount to book, negative too, that no top-up and no call explains."""

    amount_usd: member_types.SignedUsd
    reason: member_types.Reason


class CorrectionView(Struct, frozen=True):
    """A booked correction, and the balance right after it."""

    account_id: str
    amount_usd: str
    reason: str
    balance_usd: str
    available_usd: str


class TopUpView(Struct, frozen=True):
    """A recorded top-up, and the balance right after it."""

    account_id: str
    amount_usd: str
    reference: str | None
    balance_usd: str
    available_usd: str


async def list_accounts(call: AdminCall) -> Page[AccountView]:
    return await accounts.page(call.services.database, call.query)


async def show_account(call: AdminCall) -> AccountView:
    return await accounts.show(call.services.database, call.path["account_id"])


async def create_account(call: AdminCall, session: Session) -> AccountView:
    body: NewAccount = call.body
    return await accounts.create(
        session,
        call.actor,
        values.label(body.name),
        rpm_limit=body.rpm_limit,
        concurrency_limit=body.concurrency_limit,
        credit_nano_usd=values.usd(body.credit_usd),
        with_trial=body.trial,
    )


async def set_account(call: AdminCall, session: Session) -> AccountView:
    body: AccountSettings = call.body
    changes = AccountChanges()
    if body.enabled is not UNSET:
        changes["enabled"] = body.enabled
    if body.rpm_limit is not UNSET:
        changes["rpm_limit"] = body.rpm_limit
    if body.concurrency_limit is not UNSET:
        changes["concurrency_limit"] = body.concurrency_limit
    if body.default_model is not UNSET:
        changes["default_model"] = values.read_chat_model(body.default_model, call.registry)
    if body.allowed_models is not UNSET:
        changes["allowed_models"] = member_types.models_of(body.allowed_models, call.registry)
    return await accounts.change(session, call.actor, call.path["account_id"], changes)


async def top_up(call: AdminCall, session: Session) -> TopUpView:
    body: TopUp = call.body
    reference = None if body.reference is None else values.label(body.reference)
    amount = values.usd(body.amount_usd)
    account = await accounts.top_up(
        session, call.actor, call.path["account_id"], amount, reference=reference
    )
    return TopUpView(
        account.id, format_usd(amount), reference, account.balance_usd, account.available_usd
    )


async def correct(call: AdminCall, session: Session) -> CorrectionView:
    body: Correction = call.body
    amount, reason = values.usd(body.amount_usd), values.read_reason(body.reason)
    account = await accounts.correct(
        session, call.actor, call.path["account_id"], amount, reason=reason
    )
    return CorrectionView(
        account.id, format_usd(amount), reason, account.balance_usd, account.available_usd
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="accounts",
        name="list_accounts",
        summary="Accounts with balances and limits, the newest first.",
        query=PageQuery,
        response=Page[AccountView],
        read=list_accounts,
    ),
    Route(
        method="POST",
        path="accounts",
        name="create_account",
        summary="Make an account with its first credit.",
        body=NewAccount,
        response=AccountView,
        status=201,
        change=create_account,
        scope="accounts",
    ),
    Route(
        method="GET",
        path="accounts/{account_id}",
        name="show_account",
        summary="One account: balance, what is held for calls under way, limits.",
        response=AccountView,
        read=show_account,
    ),
    Route(
        method="PATCH",
        path="accounts/{account_id}",
        name="set_account",
        summary="Set limits, models of agents, and whether the account's keys work.",
        body=AccountSettings,
        response=AccountView,
        change=set_account,
        in_force=True,
    ),
    Route(
        method="POST",
        path="accounts/{account_id}/topups",
        name="top_up",
        summary="Credit an account.",
        body=TopUp,
        response=TopUpView,
        status=201,
        change=top_up,
        scope="topups",
    ),
    Route(
        method="POST",
        path="accounts/{account_id}/corrections",
        name="correct_account",
        summary="Book a correction, negative too.",
        body=Correction,
        response=CorrectionView,
        status=201,
        change=correct,
        scope="corrections",
    ),
)

"""Routes of accounts, their top-ups and corrections."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct

from actors.store.session import Session
from actors.wallet.money import format_usd
from gw import accounts
from gw.accounts import ACCOUNT, Account
from gw.admin import accounts as admin
from gw.admin.pagination import PageQuery
from gw.api.admin.noun_routes import NounRoutes
from gw.api.admin.table import AdminCall, Route, route
from gw.api.logs.usage import AccountUsage, UsageQuery, read_account_usage


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


async def top_up(call: AdminCall, session: Session) -> TopUpView:
    """Credit an account."""
    new = admin.TOP_UP.new_of(call.body, call.registry)
    account = await admin.top_up(session, call.actor, call.path["account_id"], new)
    amount = format_usd(new.amount_nano_usd)
    return TopUpView(account.id, amount, new.reference, *_balances(account))


async def correct_account(call: AdminCall, session: Session) -> CorrectionView:
    """Book a correction, negative too."""
    new = admin.CORRECTION.new_of(call.body, call.registry)
    account = await admin.correct(session, call.actor, call.path["account_id"], new)
    amount = format_usd(new.amount_nano_usd)
    return CorrectionView(account.id, amount, new.reason, *_balances(account))


async def read_usage(call: AdminCall) -> AccountUsage:
    """What an account's calls have cost, by end user, session, run, label, key, model or user."""
    services, account_id = call.services, call.path["account_id"]
    await accounts.show(services.database, account_id)
    return await read_account_usage(
        services.database,
        account_id,
        call.query,
        now=datetime.fromtimestamp(services.clock.now(), UTC),
        credits_per_usd=services.current.config.credits_per_usd,
    )


def _balances(account: Account) -> tuple[str, str]:
    return format_usd(account.balance_nano_usd), format_usd(account.available_nano_usd)


_OF = NounRoutes(ACCOUNT, "accounts")
ROUTES: tuple[Route, ...] = (
    _OF.list("Accounts with balances and limits, the newest first.", admin.page, PageQuery),
    _OF.create("Make an account with its first credit.", admin.create, scope="accounts"),
    _OF.show("One account: balance, what is held for calls under way, limits.", accounts.show),
    _OF.set("Set limits, models of agents, and whether the account's keys work.", admin.change),
    route("GET", "accounts/{account_id}/usage", read_usage, query=UsageQuery),
    route(
        "POST",
        "accounts/{account_id}/topups",
        top_up,
        body=admin.TOP_UP.New,
        status=201,
        scope="topups",
    ),
    route(
        "POST",
        "accounts/{account_id}/corrections",
        correct_account,
        body=admin.CORRECTION.New,
        status=201,
        scope="corrections",
    ),
)

"""The demo's account and key, created once and found by the next demo on the same data."""

from __future__ import annotations

from dataclasses import dataclass

from actors.store.database import Database
from actors.wallet.money import NANO_PER_USD, format_usd
from gw import accounts
from gw.accounts import NewAccount
from gw.admin import accounts as admin_accounts
from gw.admin import keys as admin_keys
from gw.admin.audit import Actor
from gw.keys import store as keys
from gw.keys.key import KeyWish
from gw.keys.secret import Secret

NAME = "demo"
CREDIT_NANO_USD = 10 * NANO_PER_USD


@dataclass(frozen=True, slots=True)
class DemoKey:
    """The key to copy, its account, and the account's balance."""

    text: str
    key_id: str
    account_id: str
    balance_usd: str


async def open_account(database: Database, secret: Secret) -> DemoKey:
    """Find or create the account and a valid key of it; top up an empty wallet."""
    found = [a for a in await accounts.list_all(database) if a.name == NAME and a.enabled]
    actor = Actor.of_this_process()
    async with database.transaction() as session:
        new = NewAccount(name=NAME)
        account = found[0] if found else await admin_accounts.create(session, actor, new)
        if account.available_nano_usd <= 0:
            top_up = admin_accounts.TopUp(amount_nano_usd=CREDIT_NANO_USD)
            account = await admin_accounts.top_up(session, actor, account.id, top_up)
    wish = KeyWish(account_id=account.id, name=NAME, account_logs=True)
    key_id, text = await find_or_issue(database, secret, wish)
    return DemoKey(text, key_id, account.id, format_usd(account.balance_nano_usd))


async def find_or_issue(database: Database, secret: Secret, wish: KeyWish) -> tuple[str, str]:
    """Return id and text of a valid key of this name and agent; create one if there is none."""
    actor = Actor.of_this_process()
    found = await keys.list_of_account(database, wish.account_id, limit=100)
    async with database.transaction() as session:
        for key in found:
            is_good = key.enabled and key.revoked_at is None and key.is_revealable
            is_it = (key.name, key.agent_id) == (wish.name, wish.agent_id)
            if is_good and is_it and key.expires_at is None:
                return key.id, (await admin_keys.reveal(session, actor, key.id, secret))[1]
        made, text = await admin_keys.create(session, actor, wish, secret)
    return made.id, text

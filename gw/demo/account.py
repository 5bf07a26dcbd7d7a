"""The demo's account and key: made once, found again by the next demo on the same data."""

from __future__ import annotations

from dataclasses import dataclass

from actors.store.database import Database
from actors.wallet.ledger import top_up
from actors.wallet.money import NANO_PER_USD, format_usd
from gw.accounts import store as accounts
from gw.keys import store as keys
from gw.keys.issue import KeyWish, issue_key, reveal_key
from gw.keys.secret import KeyHasher, KeySealer, Secret
from gw.keys.views import Viewer

NAME = "demo"
CREDIT_NANO_USD = 10 * NANO_PER_USD


@dataclass(frozen=True, slots=True)
class DemoKey:
    """The key to paste, and whose it is."""

    text: str
    key_id: str
    account_id: str
    balance_usd: str


async def open_account(database: Database, secret: Secret) -> DemoKey:
    """Find or make the account and a key of it that works; fill up an empty wallet."""
    found = [a for a in await accounts.list_all(database) if a.name == NAME and a.enabled]
    account = found[0] if found else await accounts.create(database, NAME)
    balance = account.balance_nano_usd
    if account.available_nano_usd <= 0:
        balance = await top_up(database, account.id, CREDIT_NANO_USD)
    wish = KeyWish(account_id=account.id, name=NAME, account_logs=True)
    key_id, text = await find_or_issue(database, secret, wish)
    return DemoKey(text, key_id, account.id, format_usd(balance))


async def find_or_issue(database: Database, secret: Secret, wish: KeyWish) -> tuple[str, str]:
    """Id and text of a key of this name and agent that works; it is made where there is none."""
    sealer = KeySealer(secret)
    for key in await keys.list_of_account(database, wish.account_id):
        is_good = key.enabled and key.revoked_at is None and key.is_revealable
        is_it = (key.name, key.agent_id) == (wish.name, wish.agent_id)
        if is_good and is_it and key.expires_at is None:
            return key.id, await reveal_key(
                database, key.id, sealer, viewer=Viewer.of_this_process()
            )
    issued = await issue_key(database, wish, hasher=KeyHasher(secret), sealer=sealer)
    return issued.id, issued.text

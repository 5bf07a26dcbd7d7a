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
    key_id, text = await _key(database, secret, account.id)
    return DemoKey(text, key_id, account.id, format_usd(balance))


async def _key(database: Database, secret: Secret, account_id: str) -> tuple[str, str]:
    sealer = KeySealer(secret)
    for key in await keys.list_of_account(database, account_id):
        is_good = key.enabled and key.revoked_at is None and key.is_revealable
        if is_good and key.name == NAME and key.expires_at is None:
            return key.id, await reveal_key(
                database, key.id, sealer, viewer=Viewer.of_this_process()
            )
    wish = KeyWish(account_id=account_id, name=NAME, account_logs=True)
    issued = await issue_key(database, wish, hasher=KeyHasher(secret), sealer=sealer)
    return issued.id, issued.text

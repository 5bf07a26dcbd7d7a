"""Short ways to fill the table of keys in a test."""

from typing import Any

from actors.store.database import Database
from gw import accounts as accounts
from gw.keys import store
from gw.keys.hashing import KeyHasher, legacy_hash
from gw.keys.issue import IssuedKey, issue_key
from gw.keys.key import KeyWish
from gw.keys.sealing import KeySealer
from gw.keys.secret import Secret

SECRET = Secret("integration")
HASHER, SEALER = KeyHasher(SECRET), KeySealer(SECRET)


async def account_in(database: Database) -> str:
    return (await accounts.create(database, "Ann")).id


async def issue(database: Database, account_id: str, **wish: Any) -> IssuedKey:
    request = KeyWish(account_id=account_id, name=wish.pop("name", "n"), **wish)
    return await issue_key(database, request, hasher=HASHER, sealer=SEALER)


async def found_by(database: Database, text: str) -> store.FoundKey | None:
    lookup_hash = HASHER.lookup_hash(text)
    reading = (await store.find(database, {lookup_hash: legacy_hash(text)})).get(lookup_hash)
    return reading.key if reading is not None else None

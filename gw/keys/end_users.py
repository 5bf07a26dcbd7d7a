"""The digests of end users' names (reference 11.1).

Each account has a key of its own, so that equal names of two accounts have different digests. All
of them follow from one random key, which is stored sealed like the keys of clients: a rotation of
the gateway's secret seals it anew, and no digest changes.
"""

from __future__ import annotations

import hmac
import re
import secrets
from functools import lru_cache

from actors.store.queries import load
from actors.store.session import Statements
from gw.keys.sealing import KeySealer

DIGEST_PREFIX = "eu_"
DIGEST_HEX_DIGITS = 32
# What the sealed key is bound to, as a client's key is to its id.
SEALED_AS = "end users"
_ACCOUNTS_KEPT = 4096
_SQL = load("gw.keys", "end_users.sql")

is_digest = re.compile(rf"{DIGEST_PREFIX}[0-9a-f]{{{DIGEST_HEX_DIGITS}}}").fullmatch


class EndUserKey:
    """Makes the digests of names."""

    def __init__(self, key: bytes) -> None:
        self._of_account = lru_cache(_ACCOUNTS_KEPT)(
            lambda account_id: hmac.digest(key, account_id.encode(), "sha256")
        )

    def __repr__(self) -> str:
        return "<EndUserKey>"

    def digest(self, account_id: str, name: str) -> str:
        """Return the digest of a name: `eu_` and 32 hex digits."""
        mac = hmac.digest(self._of_account(account_id), name.encode(errors="replace"), "sha256")
        return DIGEST_PREFIX + mac.hex()[:DIGEST_HEX_DIGITS]


async def read_or_make(database: Statements, sealer: KeySealer) -> EndUserKey:
    """Return the key of this database, made by whoever needs it first. Raises WrongSecret."""
    found = await database.fetch_one(_SQL["read"])
    if found is None:
        made = sealer.seal(secrets.token_hex(32), key_id=SEALED_AS)
        await database.execute(_SQL["make"], (made,))
        found = await database.fetch_one(_SQL["read"])
        assert found is not None
    return EndUserKey(bytes.fromhex(sealer.unseal(bytes(found[0]), key_id=SEALED_AS)))


async def rotate(database: Statements, sealer: KeySealer) -> None:
    """Seal the key with the current secret, where the previous one did. Raises WrongSecret."""
    found = await database.fetch_one(_SQL["read"])
    if found is None:
        return
    text, is_current = sealer.unseal_dated(bytes(found[0]), key_id=SEALED_AS)
    if not is_current:
        await database.execute(_SQL["seal"], (sealer.seal(text, key_id=SEALED_AS),))

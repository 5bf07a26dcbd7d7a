"""Makes keys: draws the text, hashes and seals it, stores the row; and reveals it again.

The one place where a key's text meets its row. What a caller may set is checked by the caller (the
command line, the demo); the rules of the table are in `store.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from actors.store.session import Statements
from gw.keys import store
from gw.keys.key_text import PREFIX, new_key_text, shown_prefix
from gw.keys.principal import OWNER
from gw.keys.secret import KeyHasher, KeySealer
from gw.keys.store import NewKey
from gw.keys.views import Viewer, note_view


class NotRevealable(Exception):
    """The key is known by its hash only, so it cannot be revealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWish:
    """What is asked of a new key (spec: API key)."""

    account_id: str
    name: str
    kind: str = "console"
    agent_id: str | None = None
    allowed_models: Sequence[str] | None = None  # canonical ids; None: every model
    expires_at: datetime | None = None
    account_logs: bool = False
    spend_cap_nano_usd: int | None = None
    user: str = OWNER
    requested_by: str | None = None


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key: its id, and the text that is shown once."""

    id: str
    text: str


async def issue_key(
    database: Statements,
    wish: KeyWish,
    *,
    hasher: KeyHasher,
    sealer: KeySealer,
    key_id: str | None = None,
) -> IssuedKey:
    """Make and store a key. Raises UnknownAccount, WrongSecret, StoreError."""
    # A key hashed under another secret than the gateway's would be refused by it.
    await check_secret(database, sealer)
    issued = IssuedKey(key_id or new_key_id(), new_key_text())
    await store.insert(
        database,
        _row(
            wish,
            key_id=issued.id,
            prefix=shown_prefix(issued.text),
            lookup_hash=hasher.lookup_hash(issued.text),
            sealed=sealer.seal(issued.text, key_id=issued.id),
        ),
    )
    return issued


async def import_hash(database: Statements, wish: KeyWish, *, sha256: bytes) -> str:
    """Store a key of which only the plain SHA-256 of the text is known; return its id.

    Raises UnknownAccount, HashIsTaken.
    """
    key_id = new_key_id()
    await store.insert(database, _row(wish, key_id=key_id, prefix=PREFIX, legacy_hash=sha256))
    return key_id


async def reveal_key(
    database: Statements, key_id: str, sealer: KeySealer, *, viewer: Viewer
) -> str:
    """Return the text of a stored key, once it is written down who is to see it.

    Raises UnknownKey, NotRevealable, WrongSecret.
    """
    sealed = await store.read_sealed(database, key_id)
    if sealed is None:
        raise NotRevealable(key_id)
    text = sealer.unseal(sealed, key_id=key_id)
    await note_view(database, key_id, viewer)
    return text


async def check_secret(database: Statements, sealer: KeySealer) -> None:
    """Raise WrongSecret when the keys in the database were stored under another secret."""
    found = await store.read_oldest_sealed(database)
    if found is not None:
        key_id, sealed = found
        sealer.unseal(sealed, key_id=key_id)


def new_key_id() -> str:
    """A fresh id of a key."""
    return f"key_{secrets.token_hex(10)}"


def _row(
    wish: KeyWish,
    *,
    key_id: str,
    prefix: str,
    lookup_hash: bytes | None = None,
    legacy_hash: bytes | None = None,
    sealed: bytes | None = None,
) -> NewKey:
    return NewKey(
        id=key_id,
        account_id=wish.account_id,
        name=wish.name,
        kind=wish.kind,
        agent_id=wish.agent_id,
        prefix=prefix,
        lookup_hash=lookup_hash,
        legacy_hash=legacy_hash,
        sealed=sealed,
        allowed_models=wish.allowed_models,
        expires_at=wish.expires_at,
        account_logs=wish.account_logs,
        spend_cap_nano_usd=wish.spend_cap_nano_usd,
        user_name=wish.user,
        requested_by=wish.requested_by,
    )

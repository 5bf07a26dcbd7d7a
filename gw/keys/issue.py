"""Creates keys: draws the text, hashes and seals it, stores the row; and reveals it again.

The only place that has both a key's text and its row. Callers (the command line, the demo) validate
the members of a wish; the rules of the table are in `store.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from actors.store.session import Statements
from gw.keys import store
from gw.keys.hashing import KeyHasher
from gw.keys.key import KeyWish
from gw.keys.key_text import PREFIX, new_key_text, shown_prefix
from gw.keys.sealing import KeySealer
from gw.keys.store import NewKeyRow
from gw.keys.views import Viewer, note_view


class NotRevealable(Exception):
    """Only the hash of the key is stored, so it cannot be revealed."""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key: its id, and the text, which is shown once."""

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
    """Create and store a key. Raises UnknownAccount, WrongSecret, StoreError."""
    # The gateway would refuse a key hashed with another secret.
    await check_secret(database, sealer)
    issued = IssuedKey(key_id or new_key_id(), new_key_text())
    await store.insert(database, _sealed_row(wish, issued, hasher, sealer))
    return issued


async def issue_keys(
    database: Statements, wishes: Sequence[KeyWish], *, hasher: KeyHasher, sealer: KeySealer
) -> list[IssuedKey]:
    """Create and store keys in one statement, of accounts that have room for them.

    Raises WrongSecret, StoreError.
    """
    await check_secret(database, sealer)
    issued = [IssuedKey(new_key_id(), new_key_text()) for _ in wishes]
    rows = [
        _sealed_row(wish, key, hasher, sealer) for wish, key in zip(wishes, issued, strict=True)
    ]
    await store.insert_all(database, rows)
    return issued


async def import_hash(database: Statements, wish: KeyWish, *, sha256: bytes) -> str:
    """Store a key by the plain SHA-256 of its text; return its id.

    Raises UnknownAccount, HashIsTaken.
    """
    key_id = new_key_id()
    await store.insert(database, NewKeyRow(wish=wish, id=key_id, prefix=PREFIX, legacy_hash=sha256))
    return key_id


async def reveal_key(
    database: Statements, key_id: str, sealer: KeySealer, *, viewer: Viewer
) -> str:
    """Record the viewer, and return the text of a stored key.

    Raises UnknownKey, NotRevealable, WrongSecret.
    """
    sealed = await store.read_sealed(database, key_id)
    if sealed is None:
        raise NotRevealable(key_id)
    text = sealer.unseal(sealed, key_id=key_id)
    await note_view(database, key_id, viewer)
    return text


async def check_secret(database: Statements, sealer: KeySealer) -> None:
    """Raise WrongSecret if the keys in the database were stored with another secret."""
    found = await store.read_oldest_sealed(database)
    if found is not None:
        key_id, sealed = found
        sealer.unseal(sealed, key_id=key_id)


def new_key_id() -> str:
    """Return a new id of a key."""
    return f"key_{secrets.token_hex(10)}"


def _sealed_row(
    wish: KeyWish, issued: IssuedKey, hasher: KeyHasher, sealer: KeySealer
) -> NewKeyRow:
    return NewKeyRow(
        wish=wish,
        id=issued.id,
        prefix=shown_prefix(issued.text),
        lookup_hash=hasher.lookup_hash(issued.text),
        sealed=sealer.seal(issued.text, key_id=issued.id),
    )

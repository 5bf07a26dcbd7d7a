"""Stores keys of the previous secret under the current one.

It runs while gateways serve: with both secrets configured, a key is found under either. Each
batch is one statement, so that the command may be stopped and repeated at any time. Keys stored
by their plain hash depend on no secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.store.session import Statements
from gw.keys import end_users, store
from gw.keys.hashing import KeyHasher
from gw.keys.sealing import KeySealer
from gw.keys.secret import Secret

# Keys of one statement: gateways read them again at their next use.
ROTATED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The numbers of keys stored again, and of those that were before."""

    rotated: int
    current: int


async def rotate_keys(database: Statements, secret: Secret) -> Rotation:
    """Store keys of the previous secret again. Raises WrongSecret if neither secret opens one."""
    hasher, sealer = KeyHasher(secret), KeySealer(secret)
    await end_users.rotate(database, sealer)
    rotated = current = 0
    after = ""
    while batch := await store.read_sealed_after(database, after, limit=ROTATED_AT_ONCE):
        after = batch[-1][0]
        old, anew = [], []
        for key_id, sealed in batch:
            text, is_current = sealer.unseal_dated(sealed, key_id=key_id)
            if is_current:
                current += 1
                continue
            old.append((key_id, sealed))
            anew.append((hasher.lookup_hash(text), sealer.seal(text, key_id=key_id)))
        rotated += await store.reseal(database, old, anew)
    return Rotation(rotated=rotated, current=current)

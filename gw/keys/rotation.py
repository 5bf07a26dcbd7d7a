"""Stores the keys anew under the secret in force, which were stored under the previous one.

While gateways serve: as long as they have both secrets, a key is found under either. Each batch is
one statement, so that the command may be stopped and repeated at any time. Keys of which only the
plain hash is known depend on no secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.store.session import Statements
from gw.keys import store
from gw.keys.secret import KeyHasher, KeySealer, Secret

# Of one statement: gateways read so many keys again when they are next used.
BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What was done: keys that were stored anew, and those that had been before."""

    rotated: int
    current: int


async def rotate_keys(database: Statements, secret: Secret) -> Rotation:
    """Store every key anew that needs it. Raises WrongSecret for one that neither secret opens."""
    hasher, sealer = KeyHasher(secret), KeySealer(secret)
    rotated = current = 0
    after = ""
    while batch := await store.read_sealed_after(database, after, limit=BATCH):
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

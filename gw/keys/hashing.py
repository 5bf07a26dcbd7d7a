"""The hashes by which keys are found in the table."""

from __future__ import annotations

from hashlib import blake2b, sha256

from gw.keys.secret import Secret

HASH_BYTES = 32


class KeyHasher:
    """The keyed hash by which keys are found: of no use to a thief of the table alone."""

    def __init__(self, secret: Secret) -> None:
        self._keyed, *previous = (
            blake2b(key=subkey, digest_size=HASH_BYTES)
            for subkey in secret.subkeys("gw key lookup")
        )
        self._previous = previous[0] if previous else None

    def lookup_hash(self, key_text: str) -> bytes:
        """Return 32 bytes; any text has a hash, also one that is no key."""
        return _hashed(self._keyed, key_text)

    def previous_hash(self, key_text: str) -> bytes | None:
        """The hash under the previous secret; None when there is none."""
        return None if self._previous is None else _hashed(self._previous, key_text)


def _hashed(keyed: blake2b, key_text: str) -> bytes:
    keyed = keyed.copy()
    keyed.update(key_text.encode("utf-8", "replace"))
    return keyed.digest()


def legacy_hash(key_text: str) -> bytes:
    """The hash under which early keys were kept: plain SHA-256 of the text, 32 bytes.

    It needs no secret because a key is 256 random bits, and so it can be imported from elsewhere.
    """
    return sha256(key_text.encode("utf-8", "replace")).digest()
